"""GET /v1/runs/{run_id}: the messages and effects of a run as a tree of steps.

The tree is a list in which each step follows its parent: a run may be thousands of steps deep,
and few programs can read JSON that is nested so deeply.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import UNSET

from driftq.core.owners import OwnedKind
from driftq.core.state import State, Topic
from driftq.errors import RunNotFound
from driftq.history.message import RunStep
from driftq.history.replay import find_steps
from driftq.http.explain.message import NOTHING, Found, find, read_histories
from driftq.http.explain.timeline import group_statuses, most_urgent, most_urgent_step
from driftq.http.reads import ask_state, in_thread, result_of
from driftq.http.wire.exchange import Exchange
from driftq.log.frame import LogEnd
from driftq.model.time import rfc3339
from driftq.model.wire.explain import (
    ExplainedRun,
    ExplainedStep,
    ExplainedStepEffect,
    ExplainedStepMessage,
    GroupStatus,
    StepState,
)
from driftq.server.effects.requests import RunStepsRequest, StepRecord
from driftq.server.topics.views import INTERNAL_PREFIX


def show_run(exchange: Exchange) -> None:
    NOTHING.read(exchange.body, exchange.query)
    exchange.edge.spawn(exchange, _show_run(exchange, exchange.names["run_id"]))


async def _show_run(exchange: Exchange, run_id: str) -> None:
    broker = exchange.edge.broker
    effects = [step for step in await _effects_of(exchange, run_id) if _shows(exchange, step)]
    end: LogEnd = await ask_state(exchange, lambda _: broker.log.confirmed)
    steps = await in_thread(
        exchange, lambda: find_steps(broker.log.folder, broker.options.history, run_id, end=end)
    )
    kept: list[RunStep] = []
    topics: list[str] = []

    def query(state: State) -> Found:
        places: list[tuple[Topic, int, int, int]] = []
        for step in steps:
            topic = state.topics_by_id.get(step.topic)
            if topic is None or not topic.has_dead_letters or topic.name.startswith(INTERNAL_PREFIX):
                continue  # A dead letter is shown with its original message.
            if not exchange.owns(OwnedKind.TOPIC, topic.name):
                continue  # Another tenant may have a run of this id.
            ordinal = topic.partitions[step.partition].index.find(step.offset)
            if ordinal is not None:
                places.append((topic, step.partition, ordinal, step.offset))
                kept.append(step)
                topics.append(topic.name)
        if not places and not effects:
            raise RunNotFound(run_id)
        return find(exchange, state, places)

    found = await ask_state(exchange, query)
    histories = await read_histories(exchange, found)
    messages: list[tuple[RunStep, ExplainedStepMessage]] = []
    for step, topic, wanted, groups in zip(kept, topics, found.wanted, found.groups, strict=True):
        statuses = group_statuses(histories[wanted], groups)
        messages.append(
            (
                step,
                ExplainedStepMessage(
                    topic=topic,
                    partition=step.partition,
                    offset=step.offset,
                    produced_at=rfc3339(step.produced_at),
                    state=most_urgent(status.state for status in statuses),
                    groups=statuses,
                ),
            )
        )
    views = list(tree(messages, effects))
    exchange.reply_json(ExplainedRun(run_id, most_urgent_step(view.state for view in views), views))


def _shows(exchange: Exchange, step: StepRecord) -> bool:
    """Another tenant may have a run of this id, with steps of its own."""
    return exchange.tenant in (None, step.identity[0])


async def _effects_of(exchange: Exchange, run_id: str) -> list[StepRecord]:
    answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    exchange.edge.engine.submit(RunStepsRequest(run_id, answer.set_result))
    steps: list[StepRecord] = await result_of(answer)
    return steps


class _Node:
    """Messages and effects that are one step."""

    def __init__(self, step_id: str | None, parent_step_id: str | None) -> None:
        self.step_id = step_id
        self.parent_step_id = parent_step_id
        self.messages: list[ExplainedStepMessage] = []
        self.effects: list[ExplainedStepEffect] = []
        self.children: list[_Node] = []


def tree(
    messages: list[tuple[RunStep, ExplainedStepMessage]], effects: Sequence[StepRecord] = ()
) -> Iterator[ExplainedStep]:
    """The steps of a run, each after its parent; a cycle of parents begins with its oldest step."""
    nodes: list[_Node] = []
    by_id: dict[str, _Node] = {}

    def node_of(step_id: str | None, parent_step_id: str | None) -> _Node:
        node = by_id.get(step_id) if step_id is not None else None
        if node is None:
            node = _Node(step_id, parent_step_id)
            nodes.append(node)
            if step_id is not None:
                by_id[step_id] = node
        node.parent_step_id = node.parent_step_id or parent_step_id
        return node

    for step, message in messages:
        node_of(step.step_id, step.parent_step_id).messages.append(message)
    for effect in effects:
        node_of(effect.step, effect.parent or None).effects.append(_effect_view(effect))
    roots: list[_Node] = []
    for node in nodes:
        parent = by_id.get(node.parent_step_id) if node.parent_step_id is not None else None
        (roots if parent is None or parent is node else parent.children).append(node)
    seen: set[int] = set()
    for start in (*roots, *nodes):
        stack = [(start, 0)]
        while stack:
            node, depth = stack.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            yield _view(node, depth)
            stack += [(child, depth + 1) for child in reversed(node.children)]


def _view(node: _Node, depth: int) -> ExplainedStep:
    groups = [group for message in node.messages for group in message.groups]
    endings: list[GroupStatus | ExplainedStepEffect] = [*groups, *node.effects]
    errors = [one.last_error for one in endings if one.last_error]
    states: list[StepState] = [*(one.state for one in node.messages), *(one.state for one in node.effects)]
    return ExplainedStep(
        step_id=node.step_id,
        parent_step_id=node.parent_step_id,
        depth=depth,
        children=[child.step_id for child in node.children if child.step_id is not None],
        state=most_urgent_step(states),
        attempts=sum(one.attempts for one in endings),
        last_error=errors[-1] if errors else "",
        messages=node.messages,
        effects=node.effects,
    )


_STATES: dict[str, StepState] = {
    "PENDING": "in_flight",
    "COMMITTED": "done",
    "FAILED": "failed",
    "UNKNOWN": "unknown",
}


def _effect_view(step: StepRecord) -> ExplainedStepEffect:
    found = step.found
    return ExplainedStepEffect(
        group=step.identity[2],
        state=_STATES[found.status],
        attempts=step.attempt,
        at=rfc3339(step.at),
        owner=found.owner or "",
        lease_until="" if found.lease_until is None else rfc3339(found.lease_until),
        last_error=found.last_error or "",
        result=None if found.result is UNSET else found.result,
        tenant_id=step.identity[0],
    )
