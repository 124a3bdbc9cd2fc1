"""Jobs: enqueue them, work on them, look at them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal
from urllib.parse import quote
from uuid import uuid4

import msgspec
from msgspec import UNSET, UnsetType

from driftq.client import job_batches
from driftq.client.consuming.subscription import LEASE_MS
from driftq.client.wire.calls import Calls
from driftq.errors import DriftQError
from driftq.model import RetryPolicy
from driftq.model.wire.jobs import (
    ClaimedJob,
    ClaimReply,
    EnqueuedJob,
    JobEnd,
    JobsReply,
    JobView,
    RequeuedJobs,
)
from driftq.telemetry.tracing import current_traceparent
from driftq.transport.errors import rebuild
from driftq.transport.paths import Query

_WAIT_MS = 10_000
"""One request waits for so long at most; a longer wait is several requests."""
_ENDED = ("succeeded", "dead")


class AsyncJobCalls:
    """The calls of `/v1/jobs`."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def enqueue(
        self,
        queue: str,
        task: str,
        payload: Any,
        *,
        priority: int | None = None,
        delay_s: float | None = None,
        run_at: datetime | None = None,
        idempotency_key: str | None = None,
        max_retries: int | None = None,
        timeout_ms: int | None = None,
        retry: RetryPolicy | None = None,
        metadata: Mapping[str, str] | None = None,
        limit_key: str | None = None,
        after: Sequence[str] | None = None,
        traceparent: str | None = None,
    ) -> EnqueuedJob:
        """Returns when the job is durable. Without a key the client makes one up: a retry adds no second job.

        `delay_s` counts from now, by this machine's clock unless the broker runs in this process; `run_at`
        is an instant. Jobs with a larger priority run first. `max_retries` n is a `retry` with n + 1
        attempts: give one of them. The limits per key of a queue count jobs by their `limit_key`. `after`
        are the ids of jobs that have to succeed first. The job's runs continue the trace that `traceparent`
        names; by default that of the current span, if OpenTelemetry is in use.
        """
        body = job_batches.job_fields(
            queue,
            task,
            priority=priority,
            run_at=self._run_at(delay_s, run_at),
            max_retries=max_retries,
            timeout_ms=timeout_ms,
            retry=retry,
            metadata=metadata,
            limit_key=limit_key,
            after=after,
            traceparent=traceparent or current_traceparent(),
        )
        body["payload"] = payload
        body["idempotency_key"] = idempotency_key or uuid4().hex
        enqueued: EnqueuedJob = await self._call("", body, kind=EnqueuedJob)
        return enqueued

    async def enqueue_many(
        self,
        queue: str,
        task: str,
        payloads: Iterable[Any],
        *,
        priority: int | None = None,
        delay_s: float | None = None,
        run_at: datetime | None = None,
        idempotency_keys: Iterable[str] | None = None,
        max_retries: int | None = None,
        timeout_ms: int | None = None,
        retry: RetryPolicy | None = None,
        metadata: Mapping[str, str] | None = None,
        limit_keys: Iterable[str] | None = None,
    ) -> list[EnqueuedJob]:
        """Returns when a job for each payload is durable, in order; thousands of them share a request.

        `idempotency_keys` and `limit_keys` have one for each. Raises BatchRefused when some were refused.
        """
        body = job_batches.job_fields(
            queue,
            task,
            priority=priority,
            run_at=self._run_at(delay_s, run_at),
            max_retries=max_retries,
            timeout_ms=timeout_ms,
            retry=retry,
            metadata=metadata,
            traceparent=current_traceparent(),
        )
        return await job_batches.enqueue_many(
            self._calls, body, payloads, keys=idempotency_keys, limit_keys=limit_keys
        )

    async def claim(
        self,
        queues: Sequence[str],
        *,
        owner: str,
        lease_ms: int = LEASE_MS,
        limit: int = 1,
        wait_ms: int = 0,
    ) -> list[ClaimedJob]:
        """Up to `limit` jobs that are due; none when none is due within `wait_ms`.

        The client does not repeat a claim: jobs whose response was lost are due again when their leases end.
        """
        body = {"queues": queues, "owner": owner, "lease_ms": lease_ms, "max": limit, "wait_ms": wait_ms}
        attempt_s = self._calls.options.attempt_timeout_s + wait_ms / 1000
        claimed: ClaimReply = await self._calls.call(
            "POST", "/v1/jobs/claim", body=body, repeatable=False, kind=ClaimReply, attempt_s=attempt_s
        )
        return claimed.jobs

    async def heartbeat(self, job: ClaimedJob, *, lease_ms: int | None = None) -> None:
        """Extend the lease to `lease_ms` from now, else to its first length from now. Raises StaleLease."""
        body = {"token": job.token} if lease_ms is None else {"token": job.token, "lease_ms": lease_ms}
        await self._call(f"/{_id(job.job_id)}/heartbeat", body)

    async def complete(self, job: ClaimedJob, *, result: Any = UNSET) -> None:
        """Complete the job: it never runs again. Raises StaleLease."""
        body: dict[str, Any] = {"token": job.token}
        if not isinstance(result, UnsetType):
            body["result"] = result
        await self._call(f"/{_id(job.job_id)}/complete", body)

    async def fail(self, job: ClaimedJob, *, error: str, retryable: bool = True) -> None:
        """Report a failed attempt: the job is retried later, or dead. Raises StaleLease."""
        body = {"token": job.token, "error": error, "retryable": retryable}
        await self._call(f"/{_id(job.job_id)}/fail", body, repeatable=False)

    async def settle(self, ends: Sequence[JobEnd], *, owner: str) -> list[DriftQError | None]:
        """Complete and fail many jobs in one durable write; None or an error for each."""
        body = {"owner": owner, "results": ends}
        settled: dict[str, list[dict[str, Any]]] = await self._call("/settle", body, kind=Any)
        return [rebuild(result) if "error" in result else None for result in settled["results"]]

    async def get(self, job_id: str, *, wait_ms: int = 0) -> JobView:
        """A job with its attempts; `result` is None until it has one. Raises JobNotFound.

        With `wait_ms` it returns when the job has ended, or when that time is over.
        """
        end = time.monotonic() + wait_ms / 1000
        while True:
            left_ms = max(0, round((end - time.monotonic()) * 1000))
            view = await self._get(job_id, min(left_ms, _WAIT_MS))
            if left_ms <= _WAIT_MS or view.state in _ENDED:
                return view

    async def _get(self, job_id: str, wait_ms: int) -> JobView:
        view: JobView = await self._calls.call(
            "GET",
            f"/v1/jobs/{_id(job_id)}",
            query={"wait_ms": wait_ms or None},
            repeatable=True,
            kind=JobView,
            attempt_s=self._calls.options.attempt_timeout_s + wait_ms / 1000,
        )
        return _shown(view)

    async def list(
        self,
        *,
        queue: str | None = None,
        state: Literal["ready", "scheduled", "blocked", "in_flight", "succeeded", "dead"] | None = None,
        limit: int | None = None,
        after: str | None = None,
    ) -> list[JobView]:
        """Jobs, oldest first; `state="dead"` lists those that were given up."""
        query: Query = {"queue": queue, "state": state, "limit": limit, "after": after}
        listed = await self._calls.call("GET", "/v1/jobs", query=query, repeatable=True, kind=JobsReply)
        return [_shown(view) for view in listed.jobs]

    async def cancel(self, job_id: str) -> None:
        """Cancel a job: it becomes dead. Raises JobNotFound, WrongJobState."""
        await self._call(f"/{_id(job_id)}/cancel", None, repeatable=False)

    async def requeue(self, job_id: str) -> None:
        """Requeue a dead job with all its attempts. Raises JobNotFound, WrongJobState."""
        await self._call(f"/{_id(job_id)}/requeue", None, repeatable=False)

    async def requeue_dead(
        self,
        *,
        queue: str | None = None,
        task: str | None = None,
        error: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        dry_run: bool = False,
        rate_per_s: int | None = None,
    ) -> RequeuedJobs:
        """Requeue the dead jobs of which all of this is true; without a filter all of them.

        `error` is a part of the last error, `since` and `until` are about the time of the end. When the
        response is lost, some may have been requeued, each once: repeat the call.
        """
        return await job_batches.requeue_dead(
            self._calls,
            queue=queue,
            where={"task": task, "error": error, "since": since, "until": until},
            dry_run=dry_run,
            rate_per_s=rate_per_s,
        )

    def _run_at(self, delay_s: float | None, run_at: datetime | None) -> datetime | None:
        return run_at if delay_s is None else self._calls.connector.now() + timedelta(seconds=delay_s)

    async def _call(self, path: str, body: Any, *, kind: Any = Any, repeatable: bool = True) -> Any:
        return await self._calls.call("POST", f"/v1/jobs{path}", body=body, repeatable=repeatable, kind=kind)


def _shown(view: JobView) -> JobView:
    """The view with None in place of a result that is not there yet."""
    return msgspec.structs.replace(view, result=None) if view.result is UNSET else view


def _id(job_id: str) -> str:
    return quote(job_id, safe="")
