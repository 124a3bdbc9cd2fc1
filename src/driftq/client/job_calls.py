"""Jobs: enqueue them, work on them, look at them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal
from urllib.parse import quote
from uuid import uuid4

import msgspec
from msgspec import UNSET, UnsetType

from driftq.client.consuming.subscription import LEASE_MS
from driftq.client.wire.calls import Calls
from driftq.errors import DriftQError
from driftq.model.wire.jobs import ClaimedJob, ClaimReply, EnqueuedJob, JobEnd, JobsReply, JobView
from driftq.telemetry.tracing import current_traceparent
from driftq.transport.errors import rebuild
from driftq.transport.paths import Query


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
        traceparent: str | None = None,
    ) -> EnqueuedJob:
        """Returns when the job is durable. Without a key the client makes one up: a retry adds no second job.

        `delay_s` counts from now, by this machine's clock unless the broker runs in this process; `run_at`
        is an instant. Jobs with a larger priority run first. The job's runs continue the trace that
        `traceparent` names; by default that of the current span, if OpenTelemetry is in use.
        """
        if delay_s is not None:
            run_at = self._calls.connector.now() + timedelta(seconds=delay_s)
        fields = {
            "traceparent": traceparent or current_traceparent(),
            "priority": priority,
            "run_at": None if run_at is None else run_at.astimezone(UTC).isoformat(),
            "max_retries": max_retries,
            "timeout_ms": timeout_ms,
        }
        body = {"queue": queue, "task": task, "payload": payload}
        body.update({field: value for field, value in fields.items() if value is not None})
        body["idempotency_key"] = idempotency_key or uuid4().hex
        enqueued: EnqueuedJob = await self._call("", body, kind=EnqueuedJob)
        return enqueued

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

    async def get(self, job_id: str) -> JobView:
        """A job with its attempts; `result` is None until it has one. Raises JobNotFound."""
        path = f"/v1/jobs/{_id(job_id)}"
        view: JobView = await self._calls.call("GET", path, repeatable=True, kind=JobView)
        return _shown(view)

    async def list(
        self,
        *,
        queue: str | None = None,
        state: Literal["ready", "scheduled", "in_flight", "succeeded", "dead"] | None = None,
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

    async def _call(self, path: str, body: Any, *, kind: Any = Any, repeatable: bool = True) -> Any:
        return await self._calls.call("POST", f"/v1/jobs{path}", body=body, repeatable=repeatable, kind=kind)


def _shown(view: JobView) -> JobView:
    """The view with None in place of a result that is not there yet."""
    return msgspec.structs.replace(view, result=None) if view.result is UNSET else view


def _id(job_id: str) -> str:
    return quote(job_id, safe="")
