"""A run that goes on: its queries fail and are started again, and nothing of it outlives its supervisor."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from driftq.pipeline.runtime.processes import members
from driftq.pipeline.runtime.status import PipelineJobState
from tests.acceptance.pipeline.running import PipelineCommands
from tests.support.waiting import wait_until

APP = """
import os
from driftq.pipeline import App

class Ticking:
    name = "ticking"

    def job(self, options):
        return TickingJob(options)

    def rebuild(self, options):
        raise ValueError("nothing to rebuild")

class TickingJob:
    name = "projection-ticking"

    def __init__(self, options):
        self.options = options

    def start(self, spark, *, once):
        ticks = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
        writer = ticks.writeStream.queryName(self.name).foreachBatch(self.write)
        return writer.option("checkpointLocation", self.options.checkpoint(self.name)).start()

    def write(self, batch, number):
        failed = os.path.join(self.options.data, "failed")
        if number == 1 and not os.path.exists(failed):
            open(failed, "w").close()
            raise RuntimeError("this batch fails once")
        batch.mapInPandas(lambda frames: frames, batch.schema).count()  # Needs Python workers.

app = App()
app.projection(Ticking())
"""


@pytest.mark.clause("Z6", "U5")
def test_a_failed_query_is_started_again_and_nothing_outlives_the_supervisor(tmp_path: Path) -> None:
    app, said = tmp_path / "ticking_app.py", tmp_path / "said.txt"
    app.write_text(APP)
    every_second = {"EVENT_PUBLISHER_METRICS_LOG_INTERVAL_SECONDS": "1"}
    pipeline = PipelineCommands("http://127.0.0.1:1", tmp_path / "data", every_second)
    supervisor = pipeline.start("run", str(app), errors=said)
    try:
        wait_until("the query was started again and went on", lambda: _went_on(pipeline), within_s=180)
        wait_until("it is told twice", lambda: len(_lines(said)) >= 2)
        assert "RuntimeError: this batch fails once; restarting in 1 s" in said.read_text()
        known = pipeline.status_of("projection-ticking")
        assert known is not None
        assert known.driver is not None
        session = os.getsid(known.driver)
        assert session == known.driver != os.getsid(supervisor.pid)
        assert len(members(session)) >= 3  # The driver, its JVM, and Python workers.
    finally:
        supervisor.kill()
        supervisor.wait()
    wait_until("its session is empty", lambda: members(session) == [])
    assert pipeline.status()["projection-ticking"]["state"] == "gone"


def _went_on(pipeline: PipelineCommands) -> bool:
    known = pipeline.status_of("projection-ticking")
    return (
        known is not None
        and (known.restarts, known.state, known.error) == (1, PipelineJobState.RUNNING, None)
        and (known.last_batch or 0) >= 2
    )


def _lines(said: Path) -> list[str]:
    """Lines of the log that say how far the job is."""
    return re.findall(
        r"INFO driftq.pipeline: projection-ticking: batch \d+, [\d,]+ rows/s.* rows in all", said.read_text()
    )
