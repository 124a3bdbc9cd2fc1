"""The whole chain through the command line: events to a topic, to a handler's effects, to a read model."""

from __future__ import annotations

import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.pipeline.running import PipelineCommands
from tests.harness import ServerProcess

APP = """
import sqlite3
import driftq
from driftq.pipeline import App, Projection

app = App()
app.projection(Projection("totals", topics=["events.order", "events.user"]))

@app.worker(topics=["events.order"], effect=driftq.Effect.IDEMPOTENT)
def charge(event, context):
    with sqlite3.connect({effects!r}, timeout=60) as effects:
        effects.execute("CREATE TABLE IF NOT EXISTS charges (event_id TEXT)")
        effects.execute("INSERT INTO charges VALUES (?)", (event.event_id,))
"""


class Shop:
    """A server, events, and an app file."""

    def __init__(self, server: ServerProcess, folder: Path) -> None:
        self._server = server
        self.pipeline = PipelineCommands(f"http://127.0.0.1:{server.port}", server.data)
        self._effects = folder / "effects.db"
        self.app = folder / "shop_app.py"
        self.app.write_text(APP.format(effects=str(self._effects)))

    def append(self, kind: str, name: str, sequence: int, operation: str, payload: Any) -> None:
        event = {"event_id": f"{kind}-{name}-{sequence}", "aggregate_type": kind, "aggregate_id": name}
        event |= {"event_type": f"{kind}.{operation}", "kind": "command", "operation": operation}
        body = event | {"payload": payload, "expected_seq": sequence - 1}
        assert self._server.client().post("/v1/events", body).status == 201

    def charges(self) -> Counter[str]:
        with sqlite3.connect(self._effects) as effects:
            return Counter(event_id for (event_id,) in effects.execute("SELECT event_id FROM charges"))


@pytest.mark.clause("Z1")
def test_events_reach_effects_and_read_models_by_commands_alone(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        shop = Shop(server, tmp_path)
        pipeline, app = shop.pipeline, str(shop.app)
        shop.append("order", "b", 1, "create", {"total": 1})
        shop.append("order", "a", 1, "create", {"total": 2})
        shop.append("order", "b", 2, "update", {"total": 3})
        shop.append("user", "u", 1, "create", {"name": "Ada"})
        shop.append("order", "c", 1, "create", {"total": 9})
        shop.append("order", "c", 2, "delete", None)

        shop.append("order", "a", 2, "update", {"total": 4})

        # Nothing is sealed yet, and all of it is published all the same.
        pipeline.ran("run", "publisher", "worker", "projection", "rebuild", "compact", "--app", app, "--once")
        wanted = [
            {"aggregate_type": "order", "aggregate_id": "a", "sequence_number": 2, "state": {"total": 4}},
            {"aggregate_type": "order", "aggregate_id": "b", "sequence_number": 2, "state": {"total": 3}},
            {"aggregate_type": "user", "aggregate_id": "u", "sequence_number": 1, "state": {"name": "Ada"}},
        ]
        assert pipeline.rows("totals") == pipeline.rows("totals", "--app", app) == wanted
        charged = ["order-a-1", "order-a-2", "order-b-1", "order-b-2", "order-c-1", "order-c-2"]
        assert shop.charges() == Counter(charged)

        status = pipeline.status()
        assert {"publisher", "worker-charge", "projection-totals"} <= set(status)
        for name in ("publisher", "worker-charge", "projection-totals"):
            job = status[name]
            assert (job["state"], job["lag"], job["error"]) == ("ended", 0, None)
            assert isinstance(job["last_batch"], int)
            assert job["checkpoint"] == str(server.data / "pipeline" / "checkpoints" / name)
        assert (status["publisher"]["rows"], status["worker-charge"]["rows"]) == (7, 6)
        assert status["rebuild-totals"]["state"] == status["compact"]["state"] == "ended"
        metrics = (server.data / "pipeline" / "status" / "worker-charge.prom").read_text()
        assert 'driftq_pipeline_rows_total{job="worker-charge"} 6.0' in metrics
