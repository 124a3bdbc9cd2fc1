"""A projection under the runner reports to the server what it does, and what it waits for."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from driftq.pipeline import Projection
from driftq.pipeline.runtime.posting import ProgressPoster
from driftq.pipeline.runtime.progress import ProgressTracker, listen
from driftq.pipeline.runtime.reports import Reporter
from driftq.pipeline.runtime.runner import Runner
from driftq.pipeline.runtime.status import StatusFolder
from driftq.settings import load_settings
from driftq.sinks import SqliteSink
from tests.harness import ServerProcess
from tests.spark.events import create, history, send
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def reported(server: ServerProcess, name: str) -> dict[str, Any] | None:
    jobs = server.client().get("/v1/pipelines").body["pipelines"]
    return next((job for job in jobs if job["name"] == name), None)


def test_a_projection_reports_its_batches_and_the_server_keeps_the_last(
    spark: SparkSession, server: ServerProcess, url: str, tmp_path: Path
) -> None:
    create(server, "events.reported")
    send(server, "events.reported", history(50, 2))
    options = load_settings().pipeline(url=url, data=str(tmp_path))
    options = replace(options, registry=replace(options.registry, projection_retries_max=1))
    sink = SqliteSink(f"{tmp_path}/rows.db")
    job = Projection("reported", topic="events.reported", sink=sink).job(options)
    with ProgressPoster(options) as poster:
        reporter = Reporter(io.BytesIO(), options)
        progress = ProgressTracker(
            StatusFolder(options.folder), reporter, checkpoint=options.checkpoint, post=poster.hear
        )
        listen(spark, progress)
        Runner(spark, progress, reporter, stop=lambda: False).run_once([job])
    known = reported(server, "projection-reported")
    assert known is not None
    assert (known["kind"], known["state"], known["rows"], known["lag"]) == ("projection", "ended", 100, 0)
    assert known["last_batch"] >= 0
    assert known["batch_ms"] > 0
    assert known["sinks"] == [f"sqlite:///{tmp_path}/rows.db"]
    assert known["checkpoint"].endswith("checkpoints/projection-reported")
    assert known["started_at"] <= known["reported_at"]
    written = server.data / "pipelines.json"
    wait_until("the last report is on disk", lambda: written.exists() and '"ended"' in written.read_text())
    server.kill()
    server.start()
    assert reported(server, "projection-reported") == known
