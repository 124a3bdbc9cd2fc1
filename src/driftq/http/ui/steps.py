"""The list of open steps for the dashboard."""

from __future__ import annotations

from typing import Literal

from driftq.core.state import State
from driftq.http.api.params import Form
from driftq.http.ui.scope import VisibleScope
from driftq.http.wire.exchange import Exchange
from driftq.model.time import rfc3339
from driftq.model.wire.ui import OpenStepsQuery, OpenStepsReply, OpenStepView
from driftq.server.effects.open_steps import OpenStep, open_steps
from driftq.server.requests import ReadRequest

STEPS = Form(OpenStepsQuery)
PAGE = 100


def steps(exchange: Exchange) -> None:
    asked = STEPS.read(exchange.body, exchange.query)
    scope = VisibleScope.of(exchange)
    now = exchange.edge.clock.now()
    limit = asked.limit or PAGE

    def query(state: State) -> OpenStepsReply:
        seen = open_steps(state.effects, now=now) if scope.sees_steps else ()
        found = [step for step in seen if scope.tenant in (None, step.identity[0])]
        unknown = [step for step in found if step.is_unknown]
        others = [step for step in found if not step.is_unknown]
        shown = [*unknown[:limit], *others[:limit]]
        held = sum(step.pending.until > now for step in others)
        return OpenStepsReply([_view(step, now) for step in shown], len(unknown), held)

    exchange.edge.engine.read(ReadRequest(query, exchange.answering(exchange.reply_json)))


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
