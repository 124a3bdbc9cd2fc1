"""The walk of an event on the page is the one that it takes: a profiler follows it through every process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from scripts.reference.walks_page import files
from tests.acceptance.pipeline.running import PipelineCommands
from tests.harness import ServerProcess
from tests.support.waiting import wait_until

WALK = 2
"""The event's, on the page."""
FILES_MAX = 65
JOBS = ("publisher", "projection-latest")
STARTING, IDLE, WALKING, ENDING = range(4)
SOON = "spark.sql.streaming.noDataProgressEventInterval=200"
"""An idle pipeline reports its progress every 10 s; here more often, so that nobody waits for it."""
ASKS = """
import sys
from driftq.transport.server import Server
server = Server(sys.argv[1])
server.content("/v1/version")
server.post("/v1/topics/events.order/spans", {}, dict)
"""
BY_THE_CLOCK = (
    "pipeline/projection/traces.py",
    "server/histograms.py",
    "server/wakeup.py",
    "telemetry/",
    "cli/pipeline_lines.py",
    "core/decide/retention.py",
    "core/decide/skip.py",
    "eventstore/seal/lease.py",
    "eventstore/seal/segment.py",
    "housekeeping/",
    "pipeline/dead_letters/relay.py",
    "pipeline/publisher/meter.py",
    "publishing/meter.py",
    "server/maintenance/",
    "server/pipelines.py",
    "sinks/dead_letter_table.py",
    # An append goes through these, and so does the sealer when it keeps its lease or writes a segment, by the
    # clock. They are subtracted only if that happens while the pipeline is idle.
    "sql/checkpoints.py",
    "sql/clock.py",
    "sql/database.py",
    "sql/fair_lock.py",
    "sql/sqlite.py",
)
"""They work for no event, or not for events alone; the trace may fall on their second."""
A_WAIT = {
    ("pipeline/source/events.py", "EventLog.wait_for"),
    ("server/events/service.py", "EventsService._end_wait"),
}
"""The publisher's source waits at the server, until the clock ends it. Its first questions do not wait."""


class Trace:
    """The calls in all processes that have its environment, see `tests/support/traced/sitecustomize.py`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir()
        (folder / "phase").write_bytes(bytes([STARTING]))
        traced = str(Path(__file__).parents[2] / "support" / "traced")
        paths = os.pathsep.join(filter(None, [traced, os.environ.get("PYTHONPATH", "")]))
        self.environment = {"TRACED_INTO": str(folder), "PYTHONPATH": paths}

    def begin(self, phase: int) -> None:
        with (self._folder / "phase").open("r+b") as file:  # The processes have mapped this very file.
            file.write(bytes([phase]))

    def calls(self, phase: int) -> set[tuple[str, str]]:
        lines = [line.split("\t") for line in (self._folder / "calls").read_text().splitlines()]
        return {(path, name) for number, path, name in lines if int(number) == phase}


class Chain:
    """A server, and the publisher and the projection beside it."""

    def __init__(self, server: ServerProcess, trace: Trace) -> None:
        self._url = f"http://127.0.0.1:{server.port}"
        self._client = server.client()
        self._environment = os.environ | trace.environment
        self.pipeline = PipelineCommands(self._url, server.data, trace.environment)

    def carry(self, number: int) -> None:
        """One event, the `number`th, from POST to the reports of both jobs."""
        event = {"event_id": f"e{number}", "aggregate_type": "order", "aggregate_id": "a"}
        event |= {"event_type": "Changed", "kind": "event", "operation": "append"}
        assert self._client.post("/v1/events", event | {"payload": {"n": number}}).status == 201
        wait_until("both jobs have it", lambda: min(map(self._rows, JOBS)) >= number, within_s=180)

    def idle(self) -> None:
        """Until each job has twice reported that it has nothing to do."""
        for job in JOBS * 2:
            self._wait_for_report(job)

    def open_connection(self) -> None:
        """As a task does, with requests whose heads the server has not seen: they name another host."""
        url = self._url.replace("127.0.0.1", "localhost")
        subprocess.run([sys.executable, "-c", ASKS, url], env=self._environment, check=True)

    def _wait_for_report(self, job: str) -> None:
        before = self.pipeline.status_of(job)
        wait_until(f"{job} reports", lambda: self.pipeline.status_of(job) != before)

    def _rows(self, job: str) -> int:
        known = self.pipeline.status_of(job)
        return 0 if known is None else known.rows


def test_an_event_passes_the_files_that_the_page_names(tmp_path: Path) -> None:
    trace = Trace(tmp_path / "trace")
    with ServerProcess(tmp_path / "data", env=trace.environment) as server:
        chain = Chain(server, trace)
        words = ("run", "publisher", "projection", "--conf", SOON)
        run = chain.pipeline.start(*words, errors=tmp_path / "said")
        try:
            chain.carry(1)  # Creates the topic.
            chain.idle()
            trace.begin(IDLE)
            chain.open_connection()
            wait_until("a wait has begun and ended by the clock", lambda: trace.calls(IDLE) >= A_WAIT)
            chain.idle()
            trace.begin(WALKING)
            chain.carry(2)
            chain.idle()
            trace.begin(ENDING)
        finally:
            run.kill()  # Its driver ends with it.
            run.wait()
    calls = trace.calls(WALKING) - trace.calls(IDLE)
    walked = {call for call in calls if not call[0].startswith(BY_THE_CLOCK)}
    told = set(files(WALK))
    assert {call for call in walked if call[0] not in told} == set(), "the page leaves these out"
    assert told - {path for path, _ in walked} == set(), "nothing runs here"
    assert len(told) <= FILES_MAX
