"""Running jobs in one Spark session: each once and in turn, or all of them until a stop.

A query that fails restarts after a growing pause, while the others go on. Two cases are not retried: a job
that could not start in the first place, and a job that another run has taken over.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from driftq.errors import (
    BridgeReplaced,
    ProjectionFenced,
    PublisherReplaced,
    ReadModelSwapped,
    TopicAppeared,
)
from driftq.model.backoff import Backoff
from driftq.pipeline.app.builtin import is_batch, is_stream
from driftq.pipeline.runtime.causes import WORKER_LATE, Cause, cause_of
from driftq.pipeline.runtime.job import BatchJob, ClosesJob, StreamJob, WaitsForTargets
from driftq.pipeline.runtime.progress import ProgressTracker
from driftq.pipeline.runtime.reports import EndReport, FailureReport, NoticeReport, Reporter, StartedReport
from driftq.pipeline.runtime.status import PipelineJobState
from driftq.pipeline.source.pinned import PinnedEnd

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

logger = logging.getLogger("driftq.pipeline")

_POLL_S = 0.2
_STARTS_MAX = 3
"""Of a query that is to run once."""
_LATE_MAX = 10
"""Further starts of such a query that only timed out on a busy machine."""
_ARRIVES_WITHIN_S = 20.0
_ARRIVED = ("Waiting", "Processing")
_TAKEN_OVER = frozenset({BridgeReplaced.__name__, PublisherReplaced.__name__, ProjectionFenced.__name__})
_AT_ONCE = frozenset({ReadModelSwapped.__name__, TopicAppeared.__name__})
Stop = Callable[[], bool]
"""True as soon as a stop is requested."""


class PipelineJobFailed(Exception):
    """A job that was to run once did not finish."""

    def __init__(self, job: str, error: str) -> None:
        super().__init__(f"{job}: {error}")
        self.job = job
        self.error = error


@dataclass(slots=True)
class _Running:
    """A job of a continuous run, and its query while it has one."""

    job: StreamJob
    query: StreamingQuery | None = None
    failures: int = 0
    batches: int = 0
    restart_at: float | None = None
    """When a failed query restarts; None for never."""


class Runner:
    """Jobs, the session they share, and the receivers of reports."""

    def __init__(
        self,
        spark: SparkSession,
        progress: ProgressTracker,
        reporter: Reporter,
        *,
        stop: Stop,
        backoff: Backoff | None = None,
    ) -> None:
        self._spark = spark
        self._progress = progress
        self._reporter = reporter
        self._stop = stop
        self._backoff = backoff or Backoff()

    def run_once(self, jobs: Sequence[StreamJob | BatchJob]) -> None:
        """Each in turn, so that the next one finds the results of the last. Raises PipelineJobFailed."""
        for job in jobs:
            if self._stop():
                return
            if is_stream(job):
                try:
                    self._stream_once(job)
                finally:
                    _close(job)
            elif is_batch(job):
                self._batch(job)

    def run_on(self, jobs: Sequence[StreamJob], *, patient: bool = False) -> None:
        """All of them, until `stop`; raises PipelineJobFailed when others have taken over all of them.

        The error of a job that cannot start is raised, unless the run is `patient` from the beginning.
        """
        running = [_Running(job) for job in jobs]
        for running_job in running:
            self._start_query(running_job, patient=patient)
            self._let_arrive(running_job.query)
        while not self._stop():
            for running_job in running:
                self._supervise(running_job)
            if all(running_job.query is None and running_job.restart_at is None for running_job in running):
                raise PipelineJobFailed(running[0].job.name, "taken over")
            time.sleep(_POLL_S)
        for running_job in running:
            if running_job.query is not None:
                running_job.query.stop()
                self._progress.settle(running_job.query, PipelineJobState.ENDED)
            _close(running_job.job)
            self._reporter.say(EndReport(running_job.job.name))

    def _start(self, job: StreamJob, *, once: bool, continues: bool = False) -> StreamingQuery:
        """Start its query; one that `continues` a run is reported neither as a start nor as a restart."""
        if not continues:
            self._progress.expect(job.name)
        self._watch_targets(job)
        with self._marking_failure(job.name):
            query = job.start(self._spark, once=once)
        self._progress.began(
            job.name, str(query.id), getattr(job, "counts", None), getattr(job, "addresses", ())
        )
        if not continues:
            self._reporter.say(StartedReport(job.name))
        return query

    def _let_arrive(self, query: StreamingQuery | None) -> None:
        """Wait until a query has its source: each needs a Python process, and Spark waits 10 s for it."""
        end = time.monotonic() + _ARRIVES_WITHIN_S
        while query is not None and query.isActive and not self._stop() and time.monotonic() < end:
            if query.status["message"].startswith(_ARRIVED):
                return
            time.sleep(_POLL_S)

    def _stream_once(self, job: StreamJob) -> None:
        """To its end. A query that fails may restart twice: finished work is kept."""
        failures = late = 0
        pinned = PinnedEnd()
        while True:
            failure = self._try_once(job, pinned)
            if failure is None:
                self._reporter.say(EndReport(job.name))
                return
            cause = cause_of(failure)
            error = self._reporter.clean(cause.text)
            if cause.kind == WORKER_LATE and late < _LATE_MAX:
                late += 1
                wait_s = self._backoff.limit_ms(1) / 1000
            else:
                failures += 1
                wait_s = self._backoff.limit_ms(failures) / 1000
            if failures == _STARTS_MAX or cause.kind in _TAKEN_OVER:
                self._reporter.say(FailureReport(job.name, error, None))
                raise PipelineJobFailed(job.name, error) from failure
            self._reporter.say(FailureReport(job.name, error, wait_s))
            time.sleep(wait_s)

    def _try_once(self, job: StreamJob, pinned: PinnedEnd) -> Exception | None:
        """Queries up to the pinned end; returns why one failed. Raises the error of a refused start."""
        continues = False
        while True:
            try:
                query = self._start(job, once=True, continues=continues)
            except Exception as refused:
                if cause_of(refused).kind != WORKER_LATE:
                    raise
                return refused
            while query.isActive and not self._stop():
                time.sleep(_POLL_S)
            failure = None if query.isActive else query.exception()
            if failure is not None:
                return self._failed_once(job, query, failure)
            query.stop()
            continues = not self._stop() and not pinned.reached_by(query)
            state = PipelineJobState.RUNNING if continues else PipelineJobState.ENDED
            self._progress.settle(query, state)
            if not continues:
                return None

    def _failed_once(self, job: StreamJob, query: StreamingQuery, failure: Exception) -> Exception:
        self._log(job.name, failure)
        error = self._reporter.clean(cause_of(failure).text)
        self._progress.settle(query, PipelineJobState.FAILED, error=error)
        return failure

    def _batch(self, job: BatchJob) -> None:
        self._progress.expect(job.name)
        self._reporter.say(StartedReport(job.name))
        self._watch_targets(job)
        with self._marking_failure(job.name):
            job.run(
                self._spark,
                lambda text: self._reporter.say(NoticeReport(job.name, self._reporter.clean(text))),
            )
        self._progress.batch_done(job.name)
        self._reporter.say(EndReport(job.name))

    def _watch_targets(self, job: StreamJob | BatchJob) -> None:
        """Let the job report that a target is away, or back, while it waits in a batch."""
        if isinstance(job, WaitsForTargets):
            job.on_outage = partial(self._progress.target, job.name)

    @contextmanager
    def _marking_failure(self, job: str) -> Iterator[None]:
        try:
            yield
        except Exception as failure:
            self._log(job, failure)
            self._progress.failed(job, self._reporter.clean(cause_of(failure).text), restarting=False)
            raise

    def _supervise(self, running_job: _Running) -> None:
        if running_job.query is None:
            if running_job.restart_at is not None and time.monotonic() >= running_job.restart_at:
                self._start_query(running_job, patient=True)
            return
        if running_job.query.isActive:
            return
        failure = running_job.query.exception()
        if failure is not None:
            self._log(running_job.job.name, failure)
        batches = self._progress.batches(running_job.job.name)
        running_job.failures = 1 if batches > running_job.batches else running_job.failures + 1
        running_job.batches = batches
        self._schedule(
            running_job, Cause(None, "it ended unexpectedly") if failure is None else cause_of(failure)
        )

    def _start_query(self, running_job: _Running, *, patient: bool) -> None:
        """Start its query, or report when that is retried; raises unless the run is `patient`."""
        try:
            running_job.query = self._start(running_job.job, once=False)
        except Exception as failure:
            cause = cause_of(failure)
            if not patient and cause.kind != WORKER_LATE:
                raise
            running_job.failures += 1
            self._schedule(running_job, cause)

    def _schedule(self, running_job: _Running, cause: Cause) -> None:
        error = self._reporter.clean(cause.text)
        wait_s = None if cause.kind in _TAKEN_OVER else self._backoff.limit_ms(running_job.failures) / 1000
        if cause.kind in _AT_ONCE:
            wait_s = 0.0
        if cause.kind == WORKER_LATE:
            running_job.failures -= 1  # Nothing failed: it never started.
            wait_s = self._backoff.limit_ms(1) / 1000
        running_job.query, running_job.restart_at = (
            None,
            None if wait_s is None else time.monotonic() + wait_s,
        )
        self._progress.failed(running_job.job.name, error, restarting=wait_s is not None)
        self._reporter.say(FailureReport(running_job.job.name, error, wait_s))

    def _log(self, job: str, failure: BaseException) -> None:
        """The whole error for the driver's log; the reports have one line of it."""
        logger.error("%s failed: %s", job, self._reporter.clean(str(failure) or repr(failure)))


def _close(job: StreamJob) -> None:
    """Its query has ended: let it finish what it does beside the query."""
    if isinstance(job, ClosesJob):
        job.close()
