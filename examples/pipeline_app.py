"""Write an app for the pipeline: a worker that derives events, and two read models.

Spark reads the app's topics and calls the worker for each event. The pipeline may be killed at any moment
and started again, and every parcel is still appended once.

    driftq event append order o-1 order.paid '{"total": 12}' --event-id o-1-paid
    driftq pipeline plan examples/pipeline_app.py
    driftq pipeline run publisher --once
    driftq pipeline run examples/pipeline_app.py --once
    driftq pipeline rows orders --app examples/pipeline_app.py

Run as a script it prints its plan, which needs neither Spark nor a server.
"""

from __future__ import annotations

import driftq
from driftq.pipeline import App, DerivedEvent, Projection, PublishedEvent, WorkerContext

app = App()


@app.worker(topics=["events.order"], effect=driftq.Effect.IDEMPOTENT)
def want_parcel(event: PublishedEvent, context: WorkerContext) -> list[DerivedEvent]:
    """A paid order wants a parcel. The parcel's id derives from the event's, so a repeat appends nothing."""
    if event.event_type != "order.paid":
        return []
    parcel = DerivedEvent(
        aggregate_type="parcel",
        aggregate_id=event.aggregate_id,
        event_type="parcel.wanted",
        payload={"order": event.aggregate_id, "total": event.payload["total"]},
    )
    return [parcel]


app.projection(Projection("orders", topic="events.order"))
app.projection(Projection("parcels", topic="events.parcel"))


if __name__ == "__main__":
    from driftq.pipeline.app.plan import plan_of

    for step in plan_of(app):
        print(f"{', '.join(step.sources)} → {step.job} ({step.does}) → {', '.join(step.sinks)}")
