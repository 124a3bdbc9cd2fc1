"""Jobs: enqueue, list, cancel, requeue; and for their workers claim, heartbeat, complete, fail and settle."""

from __future__ import annotations

from functools import partial

import msgspec

from driftq.core.jobs.table import job_id, job_offset
from driftq.core.jobs.transitions import Settlement
from driftq.core.owners import OwnedKind
from driftq.core.state import State
from driftq.errors import DriftQError, InvalidArgument, JobNotFound
from driftq.http.api.params import Form, body_problem, check_count, check_json, check_name, read_many
from driftq.http.api.tenancy import job_things
from driftq.http.jobs.requested import (
    check_metadata,
    requested_retry,
    require_own_jobs,
    run_at_ms,
)
from driftq.http.reads import job_views, read_job_entries, walk_state
from driftq.http.wire.exchange import Exchange, reply_each, reply_only, reply_outcome
from driftq.model.job import JOB_PAYLOAD_MAX, JobRequest, RetryTiming
from driftq.model.options.jobs import JobOptions
from driftq.model.time import rfc3339
from driftq.model.wire.fields import Request
from driftq.model.wire.jobs import (
    ClaimBody,
    ClaimedJob,
    ClaimReply,
    CompleteBody,
    EnqueuedJob,
    FailBody,
    HeartbeatBody,
    JobBody,
    JobReply,
    JobSettlement,
    JobsQuery,
    JobsReply,
    SettleBody,
    SettleParts,
)
from driftq.server.jobs.requests import (
    ClaimRequest,
    EnqueueRequest,
    JobsGranted,
    SettleRequest,
    cancel,
    heartbeat,
    requeue,
)
from driftq.server.jobs.views import JobFilter, JobPage, walk_jobs
from driftq.server.walk import Walk
from driftq.storage.entry import decode_job

JOB = Form(JobBody)
JOBS = Form(JobsQuery)
NOTHING = Form(Request)
PAGE = 100
_PRIORITY = 5
CLAIM = Form(ClaimBody)
HEARTBEAT = Form(HeartbeatBody)
COMPLETE = Form(CompleteBody)
FAIL = Form(FailBody)
SETTLE = Form(SettleBody)
_parts = msgspec.json.Decoder(SettleParts)
_decode_part = msgspec.json.Decoder(JobSettlement).decode


def enqueue(exchange: Exchange) -> None:
    asked = JOB.read(exchange.body, exchange.query)
    job = requested_job(asked, exchange.edge.broker.options.jobs, traceparent=exchange.traceparent)
    if job.after:
        require_own_jobs(exchange, job.after)
    exchange.edge.engine.submit(EnqueueRequest([job], exchange.answering(partial(_enqueued, exchange))))


def requested_job(asked: JobBody, options: JobOptions, *, traceparent: str | None = None) -> JobRequest:
    """The job that the body describes; raises what is wrong with it."""
    check_name("queue", asked.queue)
    check_name("task", asked.task)
    check_json("payload", asked.payload, limit_bytes=JOB_PAYLOAD_MAX)
    if asked.metadata:
        check_metadata(asked.metadata)
    if asked.retry is not None or asked.max_retries is not None:
        max_retries, retry = requested_retry(asked.retry, asked.max_retries, options)
    else:
        max_retries = options.max_attempts - 1
        retry = RetryTiming(options.base_ms, options.cap_ms, options.full_jitter)
    return JobRequest(
        queue=asked.queue,
        task=asked.task,
        payload=asked.payload,
        priority=_PRIORITY if asked.priority is None else asked.priority,
        run_at=run_at_ms(asked.run_at) if asked.run_at else None,
        idempotency_key=asked.idempotency_key or "",
        max_retries=max_retries,
        timeout_ms=asked.timeout_ms or 0,
        retry=retry,
        metadata=asked.metadata or None,
        limit_key=asked.limit_key or "",
        traceparent=asked.traceparent or traceparent,
        after=[offset_of(name) for name in dict.fromkeys(asked.after)] if asked.after else [],
    )


def _enqueued(exchange: Exchange, outcomes: list[EnqueuedJob | DriftQError]) -> None:
    (outcome,) = outcomes
    if isinstance(outcome, DriftQError):
        exchange.reply_error(outcome)
        return
    exchange.reply_json(outcome, status=200 if outcome.duplicate else 201)


def list_all(exchange: Exchange) -> None:
    asked = JOBS.read(exchange.body, exchange.query)
    start = 0 if asked.after is None else offset_after(asked.after)
    exchange.edge.spawn(exchange, _list(exchange, asked, start))


async def _list(exchange: Exchange, asked: JobsQuery, start: int) -> None:
    clock = exchange.edge.clock
    wanted = JobFilter(asked.queue, asked.state, clock.now(), clock.wall())

    def jobs(state: State) -> Walk[JobPage]:
        shows = None if exchange.tenant is None else partial(exchange.owns, OwnedKind.QUEUE)
        return walk_jobs(state, wanted, limit=asked.limit or PAGE, start=start, shows=shows)

    page = await walk_state(exchange.edge, jobs)
    views = await job_views(exchange, page.jobs)
    exchange.reply_json(JobsReply(views, job_id(page.jobs[-1].offset) if page.more else None))


def offset_of(name: str) -> int:
    """The job that the path or the body names."""
    offset = job_offset(name)
    if offset is None:
        raise JobNotFound(name[:100])
    return offset


def offset_after(name: str) -> int:
    offset = job_offset(name)
    if offset is None:
        raise InvalidArgument("after", "must be the id of a job")
    return offset + 1


def cancel_job(exchange: Exchange) -> None:
    NOTHING.read(exchange.body, exchange.query)
    offset = offset_of(exchange.names["job_id"])
    exchange.edge.engine.submit(cancel(offset, partial(_moved, exchange, offset, "dead")))


def requeue_job(exchange: Exchange) -> None:
    NOTHING.read(exchange.body, exchange.query)
    offset = offset_of(exchange.names["job_id"])
    exchange.edge.engine.submit(requeue(offset, partial(_moved, exchange, offset, "ready")))


def _moved(exchange: Exchange, offset: int, state: str, refused: DriftQError | None) -> None:
    if refused is None:
        exchange.reply_json(JobReply(job_id(offset), state))
    else:
        exchange.reply_error(refused)


# For workers


def claim(exchange: Exchange) -> None:
    """Jobs for one owner. A client that disconnects while it waits gets none, so that no lease is wasted."""
    asked = CLAIM.read(exchange.body, exchange.query)
    check_name("owner", asked.owner)
    edge = exchange.edge
    wait_ms = asked.wait_ms or 0
    reply = exchange.answering(partial(_claimed, exchange))
    if wait_ms:
        exchange.on_lost = partial(edge.engine.stages.jobs.withdraw, reply)
    queues = list(dict.fromkeys(asked.queues))
    until = edge.clock.now() + wait_ms
    edge.engine.submit(ClaimRequest(queues, asked.owner, asked.lease_ms, asked.max, until, reply))


def _claimed(exchange: Exchange, granted: JobsGranted | None) -> None:
    exchange.on_lost = None
    if granted is None:
        exchange.reply_json(ClaimReply([]))
    elif granted.entries is not None:
        _send_claimed(exchange, granted, granted.entries)
    else:
        read_job_entries(exchange, granted.record.offsets, partial(_send_claimed, exchange, granted))


def _send_claimed(exchange: Exchange, granted: JobsGranted, entries: list[bytes]) -> None:
    record = granted.record
    lease_until = rfc3339(record.at + record.lease_ms)
    jobs: list[ClaimedJob] = []
    rows = zip(record.offsets, granted.attempts, entries, strict=True)
    for token, (offset, attempt, entry) in enumerate(rows, record.first_token):
        stored = decode_job(entry)
        jobs.append(
            ClaimedJob(
                job_id(offset),
                stored.queue,
                stored.task,
                stored.payload,
                stored.priority,
                attempt,
                token,
                lease_until,
                stored.max_retries + 1,
                stored.metadata,
                stored.traceparent,
            )
        )
    exchange.reply_json(ClaimReply(jobs))


def beat(exchange: Exchange) -> None:
    asked = HEARTBEAT.read(exchange.body, exchange.query)
    offset = offset_of(exchange.names["job_id"])
    reply = partial(reply_outcome, exchange)
    exchange.edge.engine.submit(heartbeat(offset, token=asked.token, lease_ms=asked.lease_ms, reply=reply))


def complete(exchange: Exchange) -> None:
    asked = COMPLETE.read(exchange.body, exchange.query)
    offset = offset_of(exchange.names["job_id"])
    _settle_one(exchange, Settlement(offset, asked.token, result=_result(asked.result)))


def fail(exchange: Exchange) -> None:
    asked = FAIL.read(exchange.body, exchange.query)
    offset = offset_of(exchange.names["job_id"])
    retryable = asked.retryable is not False
    _settle_one(exchange, Settlement(offset, asked.token, error=asked.error, retryable=retryable))


def _result(given: msgspec.Raw | msgspec.UnsetType) -> str | None:
    if not isinstance(given, msgspec.Raw):
        return None
    check_json("result", given, limit_bytes=JOB_PAYLOAD_MAX)
    return bytes(given).decode()


def _settle_one(exchange: Exchange, settlement: Settlement) -> None:
    exchange.edge.engine.submit(SettleRequest([settlement], partial(reply_only, exchange)))


def settle(exchange: Exchange) -> None:
    """Many settlements; an invalid one fails alone."""
    errors: dict[int, DriftQError] = {}
    asked = read_many(exchange, SETTLE, _parts)
    check_count(exchange, "results", len(asked.results))
    check_name("owner", asked.owner)
    settlements: list[Settlement] = []
    given: list[JobSettlement | msgspec.Raw] = [*asked.results]
    for slot, end in enumerate(given):
        try:
            settlements.append(_own_job(exchange, _settlement(end)))
        except DriftQError as refused:
            errors[slot] = refused
    reply = partial(reply_each, exchange, b'{"status":"settled"}', errors)
    exchange.edge.engine.submit(SettleRequest(settlements, reply))


def _own_job(exchange: Exchange, settlement: Settlement) -> Settlement:
    """Raises JobNotFound for a job of another tenant."""
    if exchange.tenant is not None:
        for thing, missing in job_things(exchange, job_id(settlement.offset)):
            if not exchange.owns(*thing):
                raise missing
    return settlement


def _settlement(given: JobSettlement | msgspec.Raw) -> Settlement:
    """One settlement; raises its error."""
    if isinstance(given, msgspec.Raw):
        try:
            given = _decode_part(given)
        except (ValueError, RecursionError) as error:
            raise body_problem(error) from None
    offset = offset_of(given.job_id)
    if given.outcome == "complete":
        if given.error is not None or given.retryable is not None:
            raise InvalidArgument("error", 'is for the outcome "fail"')
        return Settlement(offset, given.token, result=_result(given.result))
    if isinstance(given.result, msgspec.Raw):
        raise InvalidArgument("result", 'is for the outcome "complete"')
    if given.error is None:
        raise InvalidArgument("error", 'has to be given with the outcome "fail"')
    return Settlement(offset, given.token, error=given.error, retryable=given.retryable is not False)
