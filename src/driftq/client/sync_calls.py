"""Effects and jobs for callers without an event loop: the awaited calls, run on the client's thread."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

from msgspec import UNSET

from driftq.client.consuming.subscription import LEASE_MS
from driftq.client.effects import AlreadyCommitted, AsyncIdempotency, Begun, Held
from driftq.client.job_calls import AsyncJobCalls
from driftq.client.loop_thread import LoopThread
from driftq.errors import DriftQError
from driftq.model.wire.idempotency import EffectStatus
from driftq.model.wire.jobs import ClaimedJob, EnqueuedJob, JobEnd, JobView


class Idempotency:
    """What a worker says around its effects. All may be repeated: a lost answer costs nothing."""

    def __init__(self, awaited: AsyncIdempotency, thread: LoopThread) -> None:
        self._awaited = awaited
        self._thread = thread

    def begin(
        self,
        *,
        topic: str,
        group: str,
        idempotency_key: str,
        owner: str,
        lease_ms: int = LEASE_MS,
        tenant_id: str = "",
        offset: int | None = None,
        source_topic: str | None = None,
    ) -> Begun | AlreadyCommitted | Held:
        """Ask for the effect. `owner` should be one that nobody else uses, for this effect at least.

        `offset`, with `source_topic` where the message came from another topic than it was sent to, says
        which message it is for. So one of a deleted topic is not taken for one of its namesake.
        """
        return self._thread.run(
            self._awaited.begin(
                topic=topic,
                group=group,
                idempotency_key=idempotency_key,
                owner=owner,
                lease_ms=lease_ms,
                tenant_id=tenant_id,
                offset=offset,
                source_topic=source_topic,
            )
        )

    def mark_success(self, begun: Begun, *, result: Any = UNSET) -> None:
        """Done: it never begins again, and duplicates get the result. Raises EffectSuperseded."""
        self._thread.run(self._awaited.mark_success(begun, result=result))

    def mark_failure(self, begun: Begun, *, error: str) -> None:
        """It failed and may begin again. Raises EffectSuperseded."""
        self._thread.run(self._awaited.mark_failure(begun, error=error))

    def commit(self, begun: Begun, *, result: Any = UNSET) -> None:
        """The HTTP interface's name for `mark_success`."""
        self.mark_success(begun, result=result)

    def fail(self, begun: Begun, *, error: str) -> None:
        """The HTTP interface's name for `mark_failure`."""
        self.mark_failure(begun, error=error)

    def extend(self, begun: Begun, *, lease_ms: int = LEASE_MS) -> None:
        """Hold it for so long from now. Raises EffectSuperseded."""
        self._thread.run(self._awaited.extend(begun, lease_ms=lease_ms))

    def status(
        self,
        *,
        topic: str,
        group: str,
        idempotency_key: str,
        tenant_id: str = "",
        offset: int | None = None,
        source_topic: str | None = None,
    ) -> EffectStatus:
        """How far it is, for the message that `begin` would name. Raises EffectNotFound."""
        return self._thread.run(
            self._awaited.status(
                topic=topic,
                group=group,
                idempotency_key=idempotency_key,
                tenant_id=tenant_id,
                offset=offset,
                source_topic=source_topic,
            )
        )

    def resolve(
        self,
        *,
        topic: str,
        group: str,
        idempotency_key: str,
        by: str,
        happened: bool,
        result: Any = UNSET,
        tenant_id: str = "",
    ) -> AlreadyCommitted | Held | None:
        """Say what became of an effect that nobody can tell; None when that is now on record.

        What happened never runs again. What did not may: redrive its dead letter. An effect that was
        committed, or is under way, is not touched and says so.
        """
        return self._thread.run(
            self._awaited.resolve(
                topic=topic,
                group=group,
                idempotency_key=idempotency_key,
                by=by,
                happened=happened,
                result=result,
                tenant_id=tenant_id,
            )
        )


class JobCalls:
    """The calls of `/v1/jobs`."""

    def __init__(self, awaited: AsyncJobCalls, thread: LoopThread) -> None:
        self._awaited = awaited
        self._thread = thread

    def enqueue(
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
    ) -> EnqueuedJob:
        """Returns when the job is durable. Without a key it gets one, so that a lost answer adds no second.

        `delay_s` is from now, by this machine's clock unless the broker is in this process; `run_at` is an
        instant. A larger priority is sooner.
        """
        return self._thread.run(
            self._awaited.enqueue(
                queue,
                task,
                payload,
                priority=priority,
                delay_s=delay_s,
                run_at=run_at,
                idempotency_key=idempotency_key,
                max_retries=max_retries,
                timeout_ms=timeout_ms,
            )
        )

    def claim(
        self, queues: Sequence[str], *, owner: str, lease_ms: int = LEASE_MS, limit: int = 1, wait_ms: int = 0
    ) -> list[ClaimedJob]:
        """The next jobs, fewer when there are fewer, none when none came in `wait_ms`.

        It is not repeated: jobs whose answer was lost come again when their leases end.
        """
        return self._thread.run(
            self._awaited.claim(queues, owner=owner, lease_ms=lease_ms, limit=limit, wait_ms=wait_ms)
        )

    def heartbeat(self, job: ClaimedJob, *, lease_ms: int | None = None) -> None:
        """Hold it for so long from now, or as long again as it was. Raises StaleLease."""
        self._thread.run(self._awaited.heartbeat(job, lease_ms=lease_ms))

    def complete(self, job: ClaimedJob, *, result: Any = UNSET) -> None:
        """Done; it never runs again. Raises StaleLease."""
        self._thread.run(self._awaited.complete(job, result=result))

    def fail(self, job: ClaimedJob, *, error: str, retryable: bool = True) -> None:
        """The attempt failed: it is tried again later, or given up. Raises StaleLease."""
        self._thread.run(self._awaited.fail(job, error=error, retryable=retryable))

    def settle(self, ends: Sequence[JobEnd], *, owner: str) -> list[DriftQError | None]:
        """Many ends in one durable write; None or an error for each."""
        return self._thread.run(self._awaited.settle(ends, owner=owner))

    def get(self, job_id: str) -> JobView:
        """Everything that is known of a job; `result` is None until it has one. Raises JobNotFound."""
        return self._thread.run(self._awaited.get(job_id))

    def list(
        self,
        *,
        queue: str | None = None,
        state: Literal["ready", "scheduled", "in_flight", "succeeded", "dead"] | None = None,
        limit: int | None = None,
        after: str | None = None,
    ) -> list[JobView]:
        """Jobs, oldest first; `state="dead"` are those that were given up."""
        return self._thread.run(self._awaited.list(queue=queue, state=state, limit=limit, after=after))

    def cancel(self, job_id: str) -> None:
        """Give it up. Raises JobNotFound, WrongJobState."""
        self._thread.run(self._awaited.cancel(job_id))

    def requeue(self, job_id: str) -> None:
        """Try a dead job again, from its first attempt. Raises JobNotFound, WrongJobState."""
        self._thread.run(self._awaited.requeue(job_id))
