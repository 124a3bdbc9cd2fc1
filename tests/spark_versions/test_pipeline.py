"""The pipeline by its command: events to topics, to a handler's effects, to a read model."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.acceptance.pipeline.running import PipelineCommands
from tests.harness import ServerProcess

APP = """
import driftq
from driftq.pipeline import App, Projection

app = App()
app.projection(Projection("totals", topic="events.order", batch_messages_max=20))

@app.worker(topics=["events.order"], effect=driftq.Effect.IDEMPOTENT)
def note(event, context):
    with open({effects!r}, "a") as effects:
        effects.write(event.event_id + "\\n")
"""
ORDERS = 10
CHANGES = 7


@pytest.mark.clause("Z7")
def test_publisher_worker_and_projection_run_once_to_the_end_of_what_is_there(
    python: None, tmp_path: Path
) -> None:
    """The projection takes 20 messages at a time: before Spark 4.2 it has to run several times."""
    effects, app = tmp_path / "effects", tmp_path / "shop.py"
    app.write_text(APP.format(effects=str(effects)))
    with ServerProcess(tmp_path / "data") as server:
        events = [
            {
                "event_id": f"o{order}-{change}",
                "aggregate_type": "order",
                "aggregate_id": f"o{order}",
                "event_type": "order.changed",
                "kind": "event",
                "operation": "append",
                "payload": {"total": change},
            }
            for change in range(1, CHANGES + 1)
            for order in range(ORDERS)
        ]
        assert server.client().post("/v1/events", events).body["failed"] == 0
        pipeline = PipelineCommands(f"http://127.0.0.1:{server.port}", server.data)
        pipeline.ran("run", "publisher", "worker", "projection", "--app", str(app), "--once")
        for name in ("publisher", "worker-note", "projection-totals"):
            status = pipeline.status_of(name)
            assert status is not None
            assert (status.state, status.error) == ("ended", None)
            assert (status.lag, status.rows) == (0, len(events))
        # The second run finds nothing to do; its publisher reads some events again and sends none.
        pipeline.ran("run", "publisher", "worker", "projection", "--app", str(app), "--once")
        assert Counter(effects.read_text().split()) == Counter(event["event_id"] for event in events)
        wanted = {f"o{order}": (CHANGES, {"total": CHANGES}) for order in range(ORDERS)}
        rows = pipeline.rows("totals", "--app", str(app))
        assert {row["aggregate_id"]: (row["sequence_number"], row["state"]) for row in rows} == wanted
        for name in ("worker-note", "projection-totals"):
            status = pipeline.status_of(name)
            assert status is not None
            assert status.rows == len(events)
