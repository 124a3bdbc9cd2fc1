"""A driver's reports to the server: the newest of each job, rarely, and never in the way."""

from __future__ import annotations

import io
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from driftq.errors import DatabaseUnavailable
from driftq.model.options.pipeline import PipelineOptions
from driftq.pipeline.projection.delivery import RetryBudget
from driftq.pipeline.runtime.posting import ProgressPoster, report_of
from driftq.pipeline.runtime.progress import ProgressTracker
from driftq.pipeline.runtime.reports import NoticeReport, Reporter, read_report
from driftq.pipeline.runtime.status import JobStatus, PipelineJobState, StatusFolder
from driftq.settings import load_settings
from tests.support.waiting import wait_until

AWAY = "the database postgresql://db/app is not available (connection refused)"


class Receiver:
    """An HTTP server that keeps what it gets, or refuses it."""

    def __init__(self) -> None:
        self.got: list[tuple[str, dict[str, Any], float]] = []
        self.status = 204
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                receiver.got.append((self.path, body, time.monotonic()))
                self.send_response(receiver.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.server.shutdown()
    made.server.server_close()


def options(url: str, folder: Path) -> PipelineOptions:
    return load_settings(environ={}).pipeline(url=url, data=str(folder))


def status(batch: int, **changes: Any) -> JobStatus:
    return JobStatus(job="projection-latest", state=PipelineJobState.RUNNING, last_batch=batch, **changes)


def test_many_changes_become_few_reports_and_the_last_one_is_always_sent(
    receiver: Receiver, tmp_path: Path
) -> None:
    with ProgressPoster(options(receiver.url, tmp_path), every_s=0.2) as poster:
        poster.hear(status(0))
        wait_until("the first report has arrived", lambda: len(receiver.got) == 1)
        for batch in range(1, 200):
            poster.hear(status(batch))
    assert len(receiver.got) < 10
    path, last, _ = receiver.got[-1]
    assert path == "/v1/pipelines/projection-latest/progress"
    assert (last["last_batch"], last["kind"], last["state"]) == (199, "projection", "running")


def test_a_long_batch_does_not_look_like_a_dead_driver(receiver: Receiver, tmp_path: Path) -> None:
    with ProgressPoster(options(receiver.url, tmp_path), every_s=0.01, repeat_s=0.02) as poster:
        poster.hear(status(0))
        wait_until("the same report has arrived three times", lambda: len(receiver.got) >= 3)


def test_a_server_that_refuses_or_is_away_costs_a_job_nothing(receiver: Receiver, tmp_path: Path) -> None:
    receiver.status = 503
    with ProgressPoster(options(receiver.url, tmp_path), every_s=0.01) as poster:
        poster.hear(status(0))
        wait_until("the report was refused", lambda: len(receiver.got) >= 1)
        receiver.status = 204
        poster.hear(status(1))
        wait_until("the next was sent", lambda: receiver.got[-1][1]["last_batch"] == 1)
    with ProgressPoster(options("http://127.0.0.1:9", tmp_path), every_s=0.01) as poster:
        poster.hear(status(0))


def test_an_outage_is_reported_once_when_it_begins_and_once_when_it_ends(tmp_path: Path) -> None:
    made = options("http://127.0.0.1:9", tmp_path)
    pipe, folder, posted = io.BytesIO(), StatusFolder(made.folder), list[JobStatus]()
    progress = ProgressTracker(folder, Reporter(pipe, made), checkpoint=made.checkpoint, post=posted.append)
    job = "projection-latest"
    progress.expect(job)
    progress.began(job, "query-1", {}, ["postgresql://db/app"])
    failures = iter([True, True, True, False])
    during: list[JobStatus] = []

    def work() -> str:
        if next(failures):
            raise DatabaseUnavailable("postgresql://db/app", cause="connection refused")
        known = folder.read(job)
        assert known is not None
        during.append(known)
        return "done"

    budget = RetryBudget(
        retries=1,
        outage_s=60.0,
        sleep=lambda _: None,
        on_outage=lambda problem: progress.target(job, problem),
    )
    assert budget.outlast(work) == "done"
    notices = [
        report.text
        for report in map(read_report, pipe.getvalue().splitlines())
        if isinstance(report, NoticeReport)
    ]
    assert notices == [
        f"a target is away, waiting for it: {AWAY}",
        "the target is back",
    ]
    [waiting] = during
    assert waiting.is_away
    assert waiting.notes()[0].startswith("a target is away")
    report = report_of(waiting, driver="host:1")
    assert (report.state, report.sinks) == ("target_away", ["postgresql://db/app"])
    assert report.error is not None
    assert "connection refused" in report.error
    assert not posted[-1].is_away
    assert report_of(posted[-1], driver="host:1").state == "running"
