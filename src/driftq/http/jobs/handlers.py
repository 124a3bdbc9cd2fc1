"""Jobs: enqueue, list, cancel, requeue."""

from __future__ import annotations

from functools import partial

from driftq.core.state import State
from driftq.errors import DriftQError, InvalidArgument, JobNotFound
from driftq.http.api.params import Form, check_json, check_name
from driftq.http.reads import read_jobs
from driftq.http.wire.exchange import Exchange
from driftq.model.job import JOB_PAYLOAD_MAX, JobRequest, job_id, job_offset
from driftq.model.time import parse_rfc3339
from driftq.model.wire.fields import Request
from driftq.model.wire.jobs import EnqueuedJob, JobBody, JobReply, JobsQuery, JobsReply, JobView
from driftq.server.jobs.requests import EnqueueRequest, cancel, requeue
from driftq.server.jobs.views import JobPage, list_jobs
from driftq.server.requests import ReadRequest

JOB = Form(JobBody)
JOBS = Form(JobsQuery)
NOTHING = Form(Request)
PAGE = 100
_PRIORITY = 5
_RETRIES = 3
_YEAR_10000_MS = 253_402_300_800_000


def offset_of(name: str) -> int:
    """The job that the path or the body names."""
    offset = job_offset(name)
    if offset is None:
        raise JobNotFound(name[:100])
    return offset


def enqueue(exchange: Exchange) -> None:
    asked = JOB.read(exchange.body, exchange.query)
    check_name("queue", asked.queue)
    check_name("task", asked.task)
    check_json("payload", asked.payload, limit_bytes=JOB_PAYLOAD_MAX)
    job = JobRequest(
        queue=asked.queue,
        task=asked.task,
        payload=asked.payload,
        priority=_PRIORITY if asked.priority is None else asked.priority,
        run_at=_run_at_ms(asked.run_at),
        idempotency_key=asked.idempotency_key or "",
        max_retries=_RETRIES if asked.max_retries is None else asked.max_retries,
        timeout_ms=asked.timeout_ms or 0,
    )
    exchange.edge.engine.submit(EnqueueRequest([job], exchange.answering(partial(_enqueued, exchange))))


def _run_at_ms(text: str | None) -> int | None:
    if not text:
        return None
    try:
        run_at = parse_rfc3339(text)
    except (ValueError, OverflowError) as error:
        raise InvalidArgument("run_at", "must be an RFC 3339 time with a zone") from error
    if run_at >= _YEAR_10000_MS:
        raise InvalidArgument("run_at", "must be before the year 10000")
    return max(0, run_at)


def _enqueued(exchange: Exchange, outcomes: list[EnqueuedJob]) -> None:
    (outcome,) = outcomes
    exchange.reply_json(outcome, status=200 if outcome.duplicate else 201)


def list_all(exchange: Exchange) -> None:
    asked = JOBS.read(exchange.body, exchange.query)
    start = 0 if asked.after is None else offset_after(asked.after)
    now, wall = exchange.edge.clock.now(), exchange.edge.clock.wall()

    def query(state: State) -> JobPage:
        limit = asked.limit or PAGE
        return list_jobs(
            state, queue=asked.queue, state_name=asked.state, limit=limit, start=start, now=now, wall=wall
        )

    def read(page: JobPage) -> None:
        read_jobs(exchange, page.jobs, partial(send, page))

    def send(page: JobPage, views: list[JobView]) -> None:
        exchange.reply_json(JobsReply(views, views[-1].job_id if page.more else None))

    exchange.edge.engine.read(ReadRequest(query, exchange.answering(read)))


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
