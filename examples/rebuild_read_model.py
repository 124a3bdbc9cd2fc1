"""Rebuild a read model after its fold was fixed, while the old one keeps serving.

The projection folds account events into balances. When `balance` changes, a rebuild folds all events again
into a second read model, and one transaction swaps the two.

    driftq event append account a-1 account.credited '{"amount": 40}' --event-id a-1-credit
    driftq event append account a-1 account.debited '{"amount": 15}' --event-id a-1-debit
    driftq pipeline run publisher projection --app examples/rebuild_read_model.py --once
    driftq pipeline rows balances --app examples/rebuild_read_model.py

    # edit `balance` below, then
    driftq pipeline run rebuild --app examples/rebuild_read_model.py --once
    driftq pipeline rows balances --app examples/rebuild_read_model.py

Run as a script it prints its plan, which needs neither Spark nor a server.
"""

from __future__ import annotations

from typing import Any

from driftq.pipeline import App, Projection, PublishedEvent, ordered

SIGN = {"account.credited": 1, "account.debited": -1}


def balance(state: dict[str, Any] | None, event: PublishedEvent) -> dict[str, Any]:
    """The account after this event. It has no other effect, because it may run again for the same event."""
    before = 0 if state is None else state["balance"]
    return {"balance": before + SIGN[event.event_type] * event.payload["amount"]}


app = App()
app.projection(Projection("balances", topic="events.account", fold=ordered(balance)))


if __name__ == "__main__":
    from driftq.pipeline.app.plan import plan_of

    for step in plan_of(app):
        print(f"{', '.join(step.sources)} → {step.job} → {', '.join(step.sinks)}")
