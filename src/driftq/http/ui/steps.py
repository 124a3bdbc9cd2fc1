"""The list of open steps for the dashboard."""

from __future__ import annotations

from typing import Literal

from driftq.core.state import State
from driftq.http.api.params import Form
from driftq.http.reads import walk_state
from driftq.http.ui.scope import VisibleScope
from driftq.http.wire.exchange import Exchange
from driftq.model.time import rfc3339
from driftq.model.wire.ui import OpenStepsQuery, OpenStepsReply, OpenStepView
from driftq.server.effects.open_steps import OpenStep, open_steps
from driftq.server.walk import Walk, batches

STEPS = Form(OpenStepsQuery)
PAGE = 100
_TOGETHER = 250


def steps(exchange: Exchange) -> None:
    asked = STEPS.read(exchange.body, exchange.query)
    exchange.edge.spawn(exchange, _steps(exchange, asked))


async def _steps(exchange: Exchange, asked: OpenStepsQuery) -> None:
    scope = VisibleScope.of(exchange)
    now = exchange.edge.clock.now()
    limit = asked.limit or PAGE

    def walk(state: State) -> Walk[OpenStepsReply]:
        unknown: list[OpenStep] = []
        others: list[OpenStep] = []
        for some in batches(open_steps(state.effects, now=now) if scope.sees_steps else (), _TOGETHER):
            for step in some:
                if scope.tenant in (None, step.identity[0]):
                    (unknown if step.is_unknown else others).append(step)
            yield 2 * len(some)
        shown = [*unknown[:limit], *others[:limit]]
        held = sum(step.pending.until > now for step in others)
        return OpenStepsReply([_view(step, now) for step in shown], len(unknown), held)

    exchange.reply_json(await walk_state(exchange.edge, walk))


def _view(step: OpenStep, now: int) -> OpenStepView:
    pending = step.pending
    state: Literal["in_flight", "unknown", "lapsed"] = "in_flight"
    if pending.until <= now:
        state = "unknown" if step.is_unknown else "lapsed"
    return OpenStepView(
        run_id=step.run_id,
        step_id=step.step_id,
        group=step.identity[2],
        tenant_id=step.identity[0],
        state=state,
        attempts=pending.attempt,
        owner=pending.owner,
        at=rfc3339(pending.at),
        lease_until=rfc3339(pending.until),
    )
