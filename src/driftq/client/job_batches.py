"""Many jobs: enqueued in requests of bounded size, and dead ones requeued."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import msgspec

from driftq.client.wire.calls import Calls
from driftq.client.wire.encoding import encode
from driftq.errors import BatchRefused, DriftQError, InvalidArgument
from driftq.model import RetryPolicy
from driftq.model.wire.jobs import EnqueuedJob, RequeuedJobs
from driftq.transport.errors import rebuild

JOBS_MAX = 5_000
BYTES_MAX = 4 << 20
"""Of one request; a request with one job may be larger."""
_SLICE = 250
"""Jobs that are written before the loop goes on."""


class _BatchResult(msgspec.Struct):
    """A job or an error."""

    job_id: str = ""
    state: str = ""
    duplicate: bool = False
    payload_mismatch: bool = False


class _BatchResults(msgspec.Struct):
    results: list[_BatchResult]


_decode = msgspec.json.Decoder(_BatchResults).decode


def job_fields(
    queue: str,
    task: str,
    *,
    priority: int | None,
    run_at: datetime | None,
    max_retries: int | None,
    timeout_ms: int | None,
    retry: RetryPolicy | None,
    metadata: Mapping[str, str] | None,
    limit_key: str | None = None,
    after: Sequence[str] | None = None,
    traceparent: str | None = None,
) -> dict[str, Any]:
    """The body of a job without its payload and key; raises InvalidArgument for a policy of messages."""
    if retry is not None and (problem := retry.job_problem()):
        raise InvalidArgument("retry", problem)
    fields = {
        "priority": priority,
        "run_at": None if run_at is None else run_at.astimezone(UTC).isoformat(),
        "max_retries": max_retries,
        "timeout_ms": timeout_ms,
        "retry": None if retry is None else retry.job_fields(),
        "metadata": None if metadata is None else dict(metadata),
        "limit_key": limit_key,
        "after": list(after) if after else None,
        "traceparent": traceparent,
    }
    body: dict[str, Any] = {"queue": queue, "task": task}
    body.update({field: value for field, value in fields.items() if value is not None})
    return body


async def enqueue_many(
    calls: Calls,
    fields: dict[str, Any],
    payloads: Iterable[Any],
    *,
    keys: Iterable[str] | None,
    limit_keys: Iterable[str] | None,
) -> list[EnqueuedJob]:
    """A job for each payload; BatchRefused when some were refused. Repeats add no second job.

    One request is under way at a time, so the jobs are enqueued in order. Meanwhile the next one is written,
    and the reply to the one before is read.
    """
    outcomes = _Outcomes()
    parts = _parts(_bodies(fields, payloads, keys, limit_keys))
    part = await anext(parts, None)
    replied: bytes | None = None
    while part is not None:
        octets = calls.writer.request("POST", "/v1/jobs/batch", body=b'{"jobs":[%b]}' % b",".join(part))
        sending = asyncio.ensure_future(calls.send(octets, repeatable=True))
        try:
            await asyncio.sleep(0)  # It is on its way.
            if replied is not None:
                outcomes.note(replied)
            part = await anext(parts, None)
            replied = await sending
        except BaseException:
            sending.cancel()
            raise
    if replied is not None:
        outcomes.note(replied)
    if outcomes.errors:
        raise BatchRefused(outcomes.errors, receipts=outcomes.enqueued, what="job")
    return [job for job in outcomes.enqueued.values() if isinstance(job, EnqueuedJob)]


class _Outcomes:
    """What became of each job, by its place among all."""

    def __init__(self) -> None:
        self.enqueued: dict[int, object] = {}
        self.errors: dict[int, DriftQError] = {}
        self._first = 0

    def note(self, content: bytes) -> None:
        """The reply to the next request."""
        results = _decode(content).results
        first = self._first
        if any(not result.job_id for result in results):
            raw = msgspec.json.decode(content)["results"]
            self.errors.update(
                (first + slot, rebuild(raw[slot])) for slot, one in enumerate(results) if not one.job_id
            )
        self.enqueued.update(
            (first + slot, EnqueuedJob(one.job_id, one.state, one.duplicate, one.payload_mismatch))
            for slot, one in enumerate(results)
            if one.job_id
        )
        self._first += len(results)


def _bodies(
    fields: dict[str, Any],
    payloads: Iterable[Any],
    keys: Iterable[str] | None,
    limit_keys: Iterable[str] | None,
) -> Iterator[bytes]:
    """Each job as JSON."""
    given = None if keys is None else iter(keys)
    limits = None if limit_keys is None else iter(limit_keys)
    start = encode(fields)[:-1]
    for payload in payloads:
        key = uuid4().hex if given is None else _next(given, "idempotency_keys")
        body = b'%b,"payload":%b,"idempotency_key":%b' % (start, encode(payload), encode(key))
        if limits is not None:
            body += b',"limit_key":%b' % encode(_next(limits, "limit_keys"))
        yield body + b"}"
    for name, left in (("idempotency_keys", given), ("limit_keys", limits)):
        if left is not None and next(left, None) is not None:
            raise InvalidArgument(name, "has more keys than there are jobs")


def _next(keys: Iterator[str], name: str) -> str:
    key = next(keys, None)
    if key is None:
        raise InvalidArgument(name, "has fewer keys than there are jobs")
    return key


async def _parts(bodies: Iterable[bytes]) -> AsyncIterator[list[bytes]]:
    """Bodies of one request each. Between jobs the loop goes on, for a request under way."""
    part: list[bytes] = []
    size = 0
    for body in bodies:
        if part and (len(part) == JOBS_MAX or size + len(body) > BYTES_MAX):
            yield part
            part, size = [], 0
        part.append(body)
        size += len(body)
        if not len(part) % _SLICE:
            await asyncio.sleep(0)
    if part:
        yield part


async def requeue_dead(
    calls: Calls,
    *,
    queue: str | None,
    where: Mapping[str, str | datetime | None],
    dry_run: bool,
    rate_per_s: int | None,
) -> RequeuedJobs:
    """The call of `POST /v1/jobs/requeue`; at a rate it may take as long as a dry run foretells."""
    wanted = {
        name: value.astimezone(UTC).isoformat() if isinstance(value, datetime) else value
        for name, value in where.items()
        if value is not None
    }
    body: dict[str, Any] = {"dry_run": dry_run}
    if queue is not None:
        body["queue"] = queue
    if wanted:
        body["filter"] = wanted
    within_s = calls.options.timeout_s
    if rate_per_s is not None and not dry_run:
        planned = await requeue_dead(calls, queue=queue, where=where, dry_run=True, rate_per_s=None)
        within_s += planned.matched / rate_per_s
        body["rate_per_s"] = rate_per_s
    done: RequeuedJobs = await calls.call(
        "POST", "/v1/jobs/requeue", body=body, repeatable=False, kind=RequeuedJobs, attempt_s=within_s
    )
    return done
