"""The worker of jobs: claims as much as it gets done, renews leases, and settles in batches.

    claim ─▶ held (leases renewed) ─▶ running (≤ concurrency) ─▶ ended ─▶ settle

Claiming, settling and renewing go on side by side, on the client's loop; jobs run in threads of their own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from functools import partial

from driftq.client import AsyncClient, JobEnd
from driftq.client.backoff import RetryBackoff
from driftq.errors import DriftQError, FailedPrecondition, JobNotFound
from driftq.model.wire.jobs import ClaimedJob
from driftq.worker.context import JobContext
from driftq.worker.job_runs import Ended, JobRuns, LeasedJob, Runnable
from driftq.worker.running.hooks import HookRunner

__all__ = ["JobLoop", "Runnable"]

logger = logging.getLogger("driftq.worker")

WAIT_MS = 5_000
SETTLE_MAX = 1_000
_AHEAD_S = 0.25
_BEATING_MAX = 32


class JobLoop:
    """Works on some queues until it is asked to stop."""

    def __init__(
        self,
        client: AsyncClient,
        tasks: Mapping[str, Runnable],
        *,
        queues: list[str],
        owner: str,
        lease_ms: int,
        concurrency: int,
        prefetch: int,
        stop_timeout_s: float,
        hooks: HookRunner,
    ) -> None:
        self._client = client
        self._hooks = hooks
        self._queues = queues
        self._owner = owner
        self._lease_ms = lease_ms
        self._concurrency = concurrency
        self._prefetch = prefetch
        self._stop_timeout_s = stop_timeout_s
        self._loop = asyncio.get_running_loop()
        self._leased: dict[str, LeasedJob] = {}
        self._ended = asyncio.Event()
        self._freed = asyncio.Event()
        self._finished = 0
        self._runs = JobRuns(tasks, concurrency=concurrency, notify=self._notify, on_start=hooks.started)

    def _notify(self) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)

    async def run(self, stopping: asyncio.Event) -> None:
        settling = asyncio.ensure_future(self._settle())
        beating = asyncio.ensure_future(self._beat())
        claiming = asyncio.ensure_future(self._claim())
        stopped = asyncio.ensure_future(stopping.wait())
        try:
            await asyncio.wait({claiming, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if claiming.done():
                await claiming
            claiming.cancel()
            self._runs.drain()
            await asyncio.wait_for(self._until_free(), self._stop_timeout_s)
        except TimeoutError:
            logger.warning("%d jobs did not finish in time", len(self._leased))
        finally:
            for ending in (settling, beating, claiming, stopped):
                ending.cancel()
            self._runs.close()

    async def _until_free(self) -> None:
        while self._leased:
            self._freed.clear()
            await self._freed.wait()

    async def _claim(self) -> None:
        """Keep as much in hand as is done in a moment, so that other workers find work too."""
        backoff = RetryBackoff()
        target = self._concurrency
        began, done_before = self._loop.time(), self._finished
        while True:
            while len(self._leased) > target // 2:
                self._freed.clear()
                await self._freed.wait()
            now = self._loop.time()
            rate = (self._finished - done_before) / max(1e-3, now - began)
            began, done_before = now, self._finished
            target = max(self._concurrency, min(self._prefetch, int(rate * _AHEAD_S)))
            try:
                jobs = await self._client.jobs.claim(
                    self._queues,
                    owner=self._owner,
                    lease_ms=self._lease_ms,
                    limit=max(1, target - len(self._leased)),
                    wait_ms=WAIT_MS,
                )
            except DriftQError as failure:
                logger.warning("could not claim jobs: %s", failure)
                await asyncio.sleep(backoff.next_s())
                continue
            backoff.succeeded()
            for job in jobs:
                self._begin(job)

    def _begin(self, job: ClaimedJob) -> None:
        context = JobContext(
            job_id=job.job_id,
            attempt=job.attempt,
            token=job.token,
            heartbeat=partial(self._beat_from_task, job),
            queue=job.queue,
            task=job.task,
            max_attempts=job.max_attempts,
            metadata=job.metadata,
        )
        leased = self._leased[job.job_id] = LeasedJob(job, context)
        self._runs.put(leased)

    def _beat_from_task(self, job: ClaimedJob) -> None:
        beating = self._client.jobs.heartbeat(job, lease_ms=self._lease_ms)
        asyncio.run_coroutine_threadsafe(beating, self._loop).result()

    async def _settle(self) -> None:
        """Whatever ended while the last batch was settled goes in the next one."""
        while True:
            await self._ended.wait()
            self._ended.clear()
            ended = self._runs.take()
            for start in range(0, len(ended), SETTLE_MAX):
                await self._settle_batch(ended[start : start + SETTLE_MAX])

    async def _settle_batch(self, ended: list[Ended]) -> None:
        ends = [(leased, end) for leased, end in ended if isinstance(end, JobEnd) and not leased.context.lost]
        try:
            if ends:
                describe = await self._client.jobs.settle([end for _, end in ends], owner=self._owner)
                for (leased, end), refused in zip(ends, describe, strict=True):
                    if refused is not None:
                        logger.warning("%s could not %s: %s", leased.job.job_id, end.outcome, refused)
                    else:
                        self._settled(leased, end)
            for leased, again_ms in ended:
                if isinstance(again_ms, int) and not leased.context.lost:  # It comes when this lease ends.
                    await self._client.jobs.heartbeat(leased.job, lease_ms=again_ms)
                    if leased.error is not None:
                        self._hooks.failed(leased.context, leased.error, dead=False)
        except DriftQError as failure:
            logger.warning("%d jobs could not be settled and will run again: %s", len(ended), failure)
        for leased, _ in ended:
            if self._leased.get(leased.job.job_id) is leased:
                del self._leased[leased.job.job_id]
        self._finished += len(ended)
        self._freed.set()

    def _settled(self, leased: LeasedJob, end: JobEnd) -> None:
        """The server has confirmed the outcome: call the hooks."""
        if leased.error is None:
            self._hooks.succeeded(leased.context, leased.result)
        else:
            limit = leased.job.max_attempts
            is_last = limit is not None and leased.job.attempt >= limit
            self._hooks.failed(leased.context, leased.error, dead=is_last or end.retryable is False)

    async def _beat(self) -> None:
        """Renew the leases of everything held, also of what still waits for its turn."""
        while True:
            await asyncio.sleep(self._lease_ms / 3000)
            slots = asyncio.Semaphore(_BEATING_MAX)
            await asyncio.gather(
                *[self._extend_lease(leased, slots) for leased in list(self._leased.values())]
            )

    async def _extend_lease(self, leased: LeasedJob, slots: asyncio.Semaphore) -> None:
        async with slots:
            if self._leased.get(leased.job.job_id) is not leased or leased.context.lost:
                return
            try:
                await self._client.jobs.heartbeat(leased.job, lease_ms=self._lease_ms)
            except (FailedPrecondition, JobNotFound) as refused:
                if self._leased.get(leased.job.job_id) is leased:
                    logger.warning("lost %s: %s", leased.job.job_id, refused)
                    self._runs.cancel(leased)
            except DriftQError as failure:
                logger.warning("could not renew %s: %s", leased.job.job_id, failure)
