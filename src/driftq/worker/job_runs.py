"""Where jobs run: threads that take the next one when they are free, and a loop for those that await."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

from driftq.client import JobEnd
from driftq.client.loop_thread import LoopThread
from driftq.model import RetryPolicy
from driftq.model.wire.jobs import ClaimedJob
from driftq.registry.verdict import Reject, Retry, error_text
from driftq.telemetry.log_context import log_ids
from driftq.telemetry.tracing import Attributes, handling_span
from driftq.worker.context import JobContext
from driftq.worker.scope import stored_result
from driftq.worker.signatures import awaits

logger = logging.getLogger("driftq.worker")

_NEXT = "failed, next after its backoff, or dead if this was its last attempt"


@dataclass(frozen=True, slots=True)
class Runnable:
    """A task as the worker sees it."""

    call: Callable[..., Any]
    arguments: Callable[[Any], dict[str, Any]]
    wants_context: bool = False
    retry: RetryPolicy | None = None

    @property
    def awaits(self) -> bool:
        return awaits(self.call)


class LeasedJob:
    """A job in our hands, from its claim to its end."""

    __slots__ = ("context", "error", "job", "result", "running")

    def __init__(self, job: ClaimedJob, context: JobContext) -> None:
        self.job = job
        self.context = context
        self.running: asyncio.Task[None] | None = None
        """Of a task that awaits."""
        self.result: Any = None
        self.error: BaseException | None = None
        """How the task ended."""


Ended = tuple[LeasedJob, JobEnd | int]
"""How a run ended; a number asks for a retry in so many milliseconds."""


class JobRuns:
    """Runs jobs that are put in, and reports their ends in the same order or another."""

    def __init__(
        self,
        tasks: Mapping[str, Runnable],
        *,
        concurrency: int,
        notify: Callable[[], None],
        on_start: Callable[[JobContext], None],
    ) -> None:
        """`notify` is called in any thread when there are ends to take and there were none.

        `on_start` is called before each run of a task, where it runs.
        """
        self._tasks = tasks
        self._on_start = on_start
        self._notify = notify
        self._queue: SimpleQueue[LeasedJob | None] = SimpleQueue()
        self._ended: deque[Ended] = deque()
        self._describe = False
        self._stopped = False
        self._loop = LoopThread("driftq-jobs") if any(one.awaits for one in tasks.values()) else None
        self._room = asyncio.Semaphore(concurrency)
        self._threads = [
            threading.Thread(target=self._work, name=f"driftq-job-{number}", daemon=True)
            for number in range(concurrency)
        ]
        for thread in self._threads:
            thread.start()

    def put(self, leased: LeasedJob) -> None:
        task = self._tasks.get(leased.job.task)
        if task is not None and task.awaits and self._loop is not None:
            asyncio.run_coroutine_threadsafe(self._work_awaiting(leased, task), self._loop.loop)
        else:
            self._queue.put(leased)

    def take(self) -> list[Ended]:
        """The runs that ended since the last time."""
        self._describe = False
        ended = self._ended
        return [ended.popleft() for _ in range(len(ended))]

    def drain(self) -> None:
        """Begin no more."""
        self._stopped = True

    def close(self) -> None:
        """Wait for no one: what still runs has lost its worker."""
        self._stopped = True
        for _ in self._threads:
            self._queue.put(None)
        if self._loop is not None:
            self._loop.close()

    def cancel(self, leased: LeasedJob) -> None:
        """Its lease is lost: a run that awaits is cancelled, one that blocks can look."""
        leased.context.lost = True
        if leased.running is not None and self._loop is not None:
            self._loop.loop.call_soon_threadsafe(leased.running.cancel)

    def _work(self) -> None:
        while (leased := self._queue.get()) is not None:
            if self._stopped or leased.context.lost:
                self._end(leased, 1)
                continue
            with _named(leased.job):
                try:
                    task = self._task(leased)
                    with _span(leased.job):
                        given = self._given(leased, task)
                        self._on_start(leased.context)
                        result = task.call(**given)
                except BaseException as error:  # noqa: BLE001 - the worker loop: it fails its job.
                    self._end(leased, self._failure(leased, error))
                else:
                    self._end(leased, _success(leased, result))

    async def _work_awaiting(self, leased: LeasedJob, task: Runnable) -> None:
        async with self._room:
            leased.running = asyncio.current_task()
            if self._stopped or leased.context.lost:
                self._end(leased, 1)
                return
            with _named(leased.job):
                try:
                    with _span(leased.job):
                        given = self._given(leased, task)
                        self._on_start(leased.context)
                        result = await task.call(**given)
                except asyncio.CancelledError:
                    self._end(leased, 1)
                except BaseException as error:  # noqa: BLE001 - the worker loop: it fails its job.
                    self._end(leased, self._failure(leased, error))
                else:
                    self._end(leased, _success(leased, result))

    def _failure(self, leased: LeasedJob, error: BaseException) -> JobEnd | int:
        task = self._tasks.get(leased.job.task)
        return _failure(leased, error, task.retry if task is not None else None)

    def _task(self, leased: LeasedJob) -> Runnable:
        task = self._tasks.get(leased.job.task)
        if task is None:
            known = ", ".join(sorted(self._tasks))
            logger.error(
                "%s: this worker has no such task; it knows %s", _describe(leased.job, "is unknown"), known
            )
            raise Retry(f"this worker has no task {leased.job.task!r}")
        return task

    @staticmethod
    def _given(leased: LeasedJob, task: Runnable) -> dict[str, Any]:
        try:
            given = task.arguments(leased.job.payload)
        except (TypeError, ValueError) as wrong:
            raise Reject(f"the payload does not fit: {wrong}") from wrong
        return {**given, "context": leased.context} if task.wants_context else given

    def _end(self, leased: LeasedJob, end: JobEnd | int) -> None:
        self._ended.append((leased, end))
        if not self._describe:
            self._describe = True  # Telling twice does no harm, and never telling cannot happen.
            self._notify()


def _named(job: ClaimedJob) -> AbstractContextManager[None]:
    """Log lines inside, the task's own too, carry the job's id."""
    return log_ids(job_id=job.job_id, queue=job.queue, attempt=job.attempt)


def _span(job: ClaimedJob) -> AbstractContextManager[Any]:
    return handling_span(f"run {job.task}", job.traceparent, lambda: _attributes(job))


def _attributes(job: ClaimedJob) -> Attributes:
    return {
        "messaging.system": "driftq",
        "messaging.operation.name": "run",
        "messaging.operation.type": "process",
        "messaging.destination.name": job.queue,
        "messaging.message.id": job.job_id,
        "driftq.task": job.task,
        "driftq.attempt": job.attempt,
    }


def _success(leased: LeasedJob, result: Any) -> JobEnd:
    leased.result = result
    return JobEnd(leased.job.job_id, leased.job.token, "complete", stored_result(result))


def _failure(leased: LeasedJob, error: BaseException, retry: RetryPolicy | None) -> JobEnd | int:
    job, reason = leased.job, error_text(error)
    leased.error = error
    if isinstance(error, Retry) and error.after_ms is not None:
        logger.info("%s: %s", _describe(job, f"asked for a retry, next in {error.after:g} s"), reason)
        return error.after_ms
    if isinstance(error, Reject):
        logger.warning("%s: %s", _describe(job, "rejected, dead"), reason)
        return JobEnd(job.job_id, job.token, "fail", error=reason, retryable=False)
    if not isinstance(error, Retry) and retry is not None and not retry.allows_retry(error):
        logger.warning("%s", _describe(job, "failed, dead by its retry policy"), exc_info=error)
        return JobEnd(job.job_id, job.token, "fail", error=reason, retryable=False)
    if isinstance(error, Retry):
        logger.info("%s: %s", _describe(job, "asked for a retry, next after its backoff"), reason)
    else:
        logger.warning("%s", _describe(job, _NEXT), exc_info=error)
    return JobEnd(job.job_id, job.token, "fail", error=reason, retryable=None)


def _describe(job: ClaimedJob, what: str) -> str:
    """A line of log about one run of a job; never with its payload."""
    return f"{job.queue}/{job.job_id} task {job.task} attempt {job.attempt} {what}"
