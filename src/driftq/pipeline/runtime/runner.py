"""Running jobs in one Spark session: each once and in turn, or all of them until somebody says stop.

A query that fails is started again after a pause that grows, while the others go on. Two things are not
tried again: what could not start in the first place, and a job that another run has taken over.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from driftq.errors import ProjectionFenced, PublisherReplaced, ReadModelSwapped
from driftq.model.backoff import Backoff
from driftq.pipeline.app.builtin import is_batch, is_stream
from driftq.pipeline.runtime.causes import WORKER_LATE, Cause, cause_of
from driftq.pipeline.runtime.job import BatchJob, StreamJob
from driftq.pipeline.runtime.progress import ProgressTracker
from driftq.pipeline.runtime.reports import EndReport, FailureReport, NoticeReport, Reporter, StartedReport
from driftq.pipeline.runtime.status import PipelineJobState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

logger = logging.getLogger("driftq.pipeline")

_POLL_S = 0.2
_STARTS_MAX = 3
"""Of a query that is to run once."""
_LATE_MAX = 10
"""Further starts of such a query that only came too late for a busy machine."""
_ARRIVES_WITHIN_S = 20.0
_ARRIVED = ("Waiting", "Processing")
_TAKEN_OVER = frozenset({PublisherReplaced.__name__, ProjectionFenced.__name__})
_AT_ONCE = frozenset({ReadModelSwapped.__name__})
Stop = Callable[[], bool]
"""True as soon as somebody asked for the end."""


class JobFailed(Exception):
    """A job that was to run once did not get through."""

    def __init__(self, job: str, error: str) -> None:
        super().__init__(f"{job}: {error}")
        self.job = job
        self.error = error


@dataclass(slots=True)
class _Running:
    """A job of a run that goes on, and its query while it has one."""

    job: StreamJob
    query: StreamingQuery | None = None
    failures: int = 0
    batches: int = 0
    again_at: float | None = None
    """When a query that failed is started again; never, if nothing is said."""


class Runner:
    """Jobs, the session they share, and who is told about them."""

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
        """Each in turn, so that the next finds what the one before has done. Raises JobFailed."""
        for job in jobs:
            if self._stop():
                return
            if is_stream(job):
                self._stream_once(job)
            elif is_batch(job):
                self._batch(job)

    def run_on(self, jobs: Sequence[StreamJob], *, patient: bool = False) -> None:
        """All of them, until `stop`; raises JobFailed when others have taken over all of them.

        What a job raises that cannot start is raised, unless it is to be `patient` from the beginning.
        """
        running = [_Running(job) for job in jobs]
        for one in running:
            self._begin(one, patient=patient)
            self._let_arrive(one.query)
        while not self._stop():
            for one in running:
                self._look_after(one)
            if all(one.query is None and one.again_at is None for one in running):
                raise JobFailed(running[0].job.name, "taken over")
            time.sleep(_POLL_S)
        for one in running:
            if one.query is not None:
                one.query.stop()
                self._progress.settle(one.query, PipelineJobState.ENDED)
            self._reporter.say(EndReport(one.job.name))

    def _start(self, job: StreamJob, *, once: bool) -> StreamingQuery:
        self._progress.expect(job.name)
        with self._marking_failure(job.name):
            query = job.start(self._spark, once=once)
        self._progress.began(job.name, str(query.id))
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
        """To its end. A query that fails may be started twice more: what is done stays done."""
        failures = late = 0
        while True:
            failure = self._try_once(job)
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
                raise JobFailed(job.name, error) from failure
            self._reporter.say(FailureReport(job.name, error, wait_s))
            time.sleep(wait_s)

    def _try_once(self, job: StreamJob) -> Exception | None:
        """One start and its query to the end; what it failed of. Raises what a start is refused for."""
        try:
            query = self._start(job, once=True)
        except Exception as refused:
            if cause_of(refused).kind != WORKER_LATE:
                raise
            return refused
        while query.isActive and not self._stop():
            time.sleep(_POLL_S)
        failure = None if query.isActive else query.exception()
        if failure is None:
            query.stop()
            self._progress.settle(query, PipelineJobState.ENDED)
            return None
        self._log(job.name, failure)
        error = self._reporter.clean(cause_of(failure).text)
        self._progress.settle(query, PipelineJobState.FAILED, error=error)
        return failure

    def _batch(self, job: BatchJob) -> None:
        self._progress.expect(job.name)
        self._reporter.say(StartedReport(job.name))
        with self._marking_failure(job.name):
            job.run(
                self._spark,
                lambda text: self._reporter.say(NoticeReport(job.name, self._reporter.clean(text))),
            )
        self._progress.batch_done(job.name)
        self._reporter.say(EndReport(job.name))

    @contextmanager
    def _marking_failure(self, job: str) -> Iterator[None]:
        try:
            yield
        except Exception as failure:
            self._log(job, failure)
            self._progress.failed(job, self._reporter.clean(cause_of(failure).text), again=False)
            raise

    def _look_after(self, one: _Running) -> None:
        if one.query is None:
            if one.again_at is not None and time.monotonic() >= one.again_at:
                self._begin(one, patient=True)
            return
        if one.query.isActive:
            return
        failure = one.query.exception()
        if failure is not None:
            self._log(one.job.name, failure)
        batches = self._progress.batches(one.job.name)
        one.failures = 1 if batches > one.batches else one.failures + 1
        one.batches = batches
        self._schedule(one, Cause(None, "it ended by itself") if failure is None else cause_of(failure))

    def _begin(self, one: _Running, *, patient: bool) -> None:
        """Start its query, or say when that is tried again; raises unless it is to be `patient`."""
        try:
            one.query = self._start(one.job, once=False)
        except Exception as failure:
            cause = cause_of(failure)
            if not patient and cause.kind != WORKER_LATE:
                raise
            one.failures += 1
            self._schedule(one, cause)

    def _schedule(self, one: _Running, cause: Cause) -> None:
        error = self._reporter.clean(cause.text)
        wait_s = None if cause.kind in _TAKEN_OVER else self._backoff.limit_ms(one.failures) / 1000
        if cause.kind in _AT_ONCE:
            wait_s = 0.0
        if cause.kind == WORKER_LATE:
            one.failures -= 1  # Nothing failed: it never started.
            wait_s = self._backoff.limit_ms(1) / 1000
        one.query, one.again_at = None, None if wait_s is None else time.monotonic() + wait_s
        self._progress.failed(one.job.name, error, again=wait_s is not None)
        self._reporter.say(FailureReport(one.job.name, error, wait_s))

    def _log(self, job: str, failure: BaseException) -> None:
        """The whole account for the driver's log; the reports have one line of it."""
        logger.error("%s failed: %s", job, self._reporter.clean(str(failure) or repr(failure)))
