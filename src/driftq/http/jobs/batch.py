"""POST /v1/jobs/batch: many jobs in one durable write; an invalid job fails alone."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import msgspec

from driftq.errors import DriftQError
from driftq.http.api.params import Form, body_problem, check_count, read_many
from driftq.http.api.tenancy import NamedThing, queue_thing
from driftq.http.jobs.handlers import requested_job
from driftq.http.jobs.requested import require_own_jobs
from driftq.http.wire.exchange import Exchange, error_body
from driftq.model.job import JobRequest
from driftq.model.wire.jobs import EnqueuedJob, JobBatchBody, JobBatchParts, JobBody
from driftq.server.jobs.requests import EnqueueRequest

BATCH = Form(JobBatchBody)
_parts = msgspec.json.Decoder(JobBatchParts)
_decode_job = msgspec.json.Decoder(JobBody).decode
_encode = msgspec.json.Encoder().encode


def enqueue_batch(exchange: Exchange) -> None:
    asked = read_many(exchange, BATCH, _parts)
    check_count(exchange, "jobs", len(asked.jobs))
    options = exchange.edge.broker.options.jobs
    jobs: list[JobRequest] = []
    errors: dict[int, DriftQError] = {}
    given: list[JobBody | msgspec.Raw] = [*asked.jobs]
    for slot, body in enumerate(given):
        try:
            job = requested_job(_decoded(body), options, traceparent=exchange.traceparent)
            require_own_jobs(exchange, job.after)
            jobs.append(job)
        except DriftQError as refused:
            errors[slot] = refused
    exchange.edge.engine.submit(
        EnqueueRequest(jobs, exchange.answering(partial(_enqueued, exchange, errors)))
    )


def _decoded(body: JobBody | msgspec.Raw) -> JobBody:
    if not isinstance(body, msgspec.Raw):
        return body
    try:
        return _decode_job(body)
    except (ValueError, RecursionError) as error:
        raise body_problem(error) from None


def queues_of(exchange: Exchange) -> Iterator[NamedThing]:
    """The queues of all jobs of a batch that are valid."""
    for body in read_many(exchange, BATCH, _parts).jobs:
        try:
            yield queue_thing(_decoded(body).queue)
        except DriftQError:
            continue  # It is refused alone, and names no queue.


def _enqueued(
    exchange: Exchange, errors: dict[int, DriftQError], outcomes: list[EnqueuedJob | DriftQError]
) -> None:
    results = [
        error_body(outcome) if isinstance(outcome, DriftQError) else _encode(outcome) for outcome in outcomes
    ]
    for slot, refused in sorted(errors.items()):
        results.insert(slot, error_body(refused))
    exchange.reply_ok(b'{"results":[%b]}' % b",".join(results))
