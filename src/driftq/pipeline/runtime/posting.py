"""Reports to the server what its jobs do, for its dashboard: best effort, and never in the way of a batch.

Changes are handed to a thread. It sends the newest status of each job, at most once a second, and repeats
the last one every ten seconds while a job runs, so that a long batch does not look like a dead driver. A
server that does not answer costs one short try; what was not sent is replaced by the next status.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from types import TracebackType
from typing import Self
from urllib.parse import quote

from driftq.errors import DriftQError
from driftq.model.options.pipeline import PipelineOptions
from driftq.model.wire.pipelines import PipelineReport, ReportedState
from driftq.pipeline.runtime.status import JobStatus, PipelineJobState
from driftq.transport.server import Server

EVERY_S = 1.0
REPEAT_S = 10.0
_ANSWER_S = 2.0
_ERROR_MAX = 2_000
_BUSY = (PipelineJobState.RUNNING, PipelineJobState.WAITING)

logger = logging.getLogger("driftq.pipeline")


class ProgressPoster:
    """The reports of one driver. Use it with `with`: the end sends what is left."""

    def __init__(
        self, options: PipelineOptions, *, every_s: float = EVERY_S, repeat_s: float = REPEAT_S
    ) -> None:
        self._server = Server(
            options.url, credentials=options.credentials, patience_s=0.0, answer_s=_ANSWER_S
        )
        self._every_s = every_s
        self._repeat_s = repeat_s
        self._driver = f"{socket.gethostname()}:{os.getpid()}"
        self._lock = threading.Lock()
        self._jobs: dict[str, JobStatus] = {}
        self._unsent: set[str] = set()
        self._wake = threading.Event()
        self._over = False
        self._failing = False
        self._thread = threading.Thread(target=self._work, name="progress", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over = True
        self._wake.set()
        self._thread.join(2 * _ANSWER_S)

    def hear(self, status: JobStatus) -> None:
        """Keep this as the newest status of its job; returns at once."""
        with self._lock:
            self._jobs[status.job] = status
            self._unsent.add(status.job)
        self._wake.set()

    def _work(self) -> None:
        sent_at = 0.0
        while not self._over:
            self._wake.wait(self._repeat_s)
            pause = sent_at + self._every_s - time.monotonic()
            if pause > 0 and not self._over:
                time.sleep(pause)
            self._wake.clear()
            sent_at = time.monotonic()
            self._send(self._due())
        self._send(self._due())
        self._server.close()

    def _due(self) -> list[JobStatus]:
        """What has changed; all jobs that run, when nothing has."""
        with self._lock:
            names, self._unsent = self._unsent, set()
            if names or self._over:
                return [self._jobs[name] for name in names]
            return [status for status in self._jobs.values() if status.state in _BUSY]

    def _send(self, jobs: list[JobStatus]) -> None:
        for status in jobs:
            try:
                path = f"/v1/pipelines/{quote(status.job, safe='')}/progress"
                self._server.post(path, report_of(status, driver=self._driver), kind=type(None))
            except (DriftQError, OSError) as failure:
                if not self._failing:
                    logger.warning("the server does not take progress reports: %s", failure)
                self._failing = True
                return  # The others would wait for it too; the next status replaces this one.
            self._failing = False


def report_of(status: JobStatus, *, driver: str) -> PipelineReport:
    """The status as the server takes it."""
    state: ReportedState = "target_away" if status.is_away else _STATES[status.state]
    error = status.away if status.is_away else status.error
    return PipelineReport(
        kind=status.kind,
        state=state,
        last_batch=status.last_batch,
        batch_rows=status.batch_rows,
        batch_ms=status.batch_ms,
        rows=status.rows,
        rows_per_second=status.rows_per_second,
        lag=status.lag,
        checkpoint=status.checkpoint,
        sinks=list(status.sinks) or None,
        restarts=status.restarts,
        dead_letters=status.dead_letters,
        outages=status.outages,
        error=None if error is None else error[:_ERROR_MAX],
        driver=driver,
        started_at=status.started_at,
    )


_STATES: dict[PipelineJobState, ReportedState] = {
    PipelineJobState.RUNNING: "running",
    PipelineJobState.WAITING: "waiting",
    PipelineJobState.ENDED: "ended",
    PipelineJobState.FAILED: "failed",
    PipelineJobState.GONE: "failed",
}
