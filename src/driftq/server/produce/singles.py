"""A turn's single messages, stored as columns: no object for a message, one answer for all requests.

It is all or nothing: where a request is of another kind, a topic is missing, a key is not certainly new or a
partition is nearly full, nothing is stored here and the stage judges each message alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeGuard

from driftq.core.decide.new_messages import NewMessages, NewRun, decide_new
from driftq.core.state import State, Topic
from driftq.errors import DriftQError
from driftq.model.topic import DEAD_LETTER_PREFIX
from driftq.server.produce.prepare import columns_of
from driftq.server.requests import ProduceRequest, SingleRequest, StoredRun
from driftq.server.turn import Turn

Store = Callable[[Turn, Topic, NewRun], None]


def store_singles(turn: Turn, requests: Sequence[ProduceRequest | SingleRequest], store: Store) -> bool:
    """Store and answer all of them; False, and nothing has changed, when they need a closer look."""
    if not _are_singles(requests):
        return False
    state = turn.state
    columns: list[tuple[Topic, list[SingleRequest], NewMessages]] = []
    prints: list[int] = []
    for name, of_topic in _by_topic(requests).items():
        topic = state.topics.get(name)
        if topic is None or name.startswith(DEAD_LETTER_PREFIX):
            return False
        new = columns_of([request.message for request in of_topic], at=turn.now)
        if new is None:
            return False
        columns.append((topic, of_topic, new))
        prints += new.fingerprints
    if prints and not _are_new(state, prints):
        return False
    runs: list[NewRun] = []
    for topic, _, new in columns:
        run = decide_new(state, topic, new, now=turn.now)
        if run is None:
            return False
        runs.append(run)
    for (topic, of_topic, _), run in zip(columns, runs, strict=True):
        store(turn, topic, run)
        answer = StoredRun(topic.name, run.partitions, run.first_offset)
        turn.reply_through(partial(_answer, of_topic), answer)
    return True


def _are_singles(requests: Sequence[ProduceRequest | SingleRequest]) -> TypeGuard[Sequence[SingleRequest]]:
    for request in requests:  # noqa: SIM110 - half the cost of all() with a generator.
        if type(request) is not SingleRequest:
            return False
    return True


def _by_topic(requests: Sequence[SingleRequest]) -> dict[str, list[SingleRequest]]:
    topics = [request.message.topic for request in requests]
    if topics.count(topics[0]) == len(topics):
        return {topics[0]: list(requests)}
    found: dict[str, list[SingleRequest]] = {}
    for request, name in zip(requests, topics, strict=True):
        found.setdefault(name, []).append(request)
    return found


def _are_new(state: State, prints: list[int]) -> bool:
    """No key is live or occurs twice, and the table takes them all."""
    keyed = [print_ for print_ in prints if print_]
    if len(state.keys) + len(keyed) >= state.limits.idempotency_keys_max:
        return False
    return len(set(keyed)) == len(keyed) and state.keys.has_none(keyed)


def _answer(requests: list[SingleRequest], answer: StoredRun | DriftQError) -> None:
    """The commit is durable, or has failed."""
    if isinstance(answer, DriftQError):
        for request in requests:
            request.reply(answer)
    else:
        requests[0].answers.answer_all([request.asked for request in requests], answer)
