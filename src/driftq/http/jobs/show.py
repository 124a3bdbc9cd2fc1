"""GET /v1/jobs/{id}: a job from memory, or from the history once the broker has evicted it or its runs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import msgspec

from driftq.core.jobs.table import JOBS_TOPIC, job_id
from driftq.core.owners import OwnedKind
from driftq.core.state import State
from driftq.errors import JobNotFound
from driftq.history.job import JobTimeline
from driftq.history.job_writer import read_job_history
from driftq.http.api.params import Form
from driftq.http.jobs.handlers import offset_of
from driftq.http.reads import in_thread, read_jobs
from driftq.http.wire.exchange import Exchange
from driftq.log.frame import LogEnd
from driftq.model.time import rfc3339
from driftq.model.wire.jobs import JobAttempt, JobQuery, JobView
from driftq.server.jobs.ends import EndRequest
from driftq.server.jobs.views import JobFacts, job_facts, job_view
from driftq.server.requests import ReadRequest
from driftq.storage.entry import decode_job, produced_at

JOB = Form(JobQuery)


@dataclass(frozen=True, slots=True)
class _Evicted:
    """A finished job whose runs, or which itself, is no longer in memory."""

    facts: JobFacts | None
    topic: int
    end: LogEnd


def show(exchange: Exchange) -> None:
    asked = JOB.read(exchange.body, exchange.query)
    offset = offset_of(exchange.names["job_id"])
    if not asked.wait_ms:
        _show(exchange, offset)
        return
    edge = exchange.edge

    def ended(_: None) -> None:
        exchange.on_lost = None
        _show(exchange, offset)

    request = EndRequest(offset, edge.clock.now() + asked.wait_ms, exchange.answering(ended))
    exchange.on_lost = partial(edge.engine.stages.jobs.ends.withdraw, request)
    edge.engine.submit(request)


def _show(exchange: Exchange, offset: int) -> None:
    """The job as it is now."""
    now, wall = exchange.edge.clock.now(), exchange.edge.clock.wall()

    def query(state: State) -> JobFacts | _Evicted:
        topic = state.topics.get(JOBS_TOPIC)
        if topic is None or offset >= topic.next_offset:
            raise JobNotFound(job_id(offset))
        facts = None
        if state.jobs.state(offset) is not None:
            facts = job_facts(state, offset, now=now, wall=wall)
        if facts is not None and (facts.history or facts.state != "succeeded"):
            return facts
        return _Evicted(facts, topic.id, exchange.edge.broker.log.confirmed)

    def read(found: JobFacts | _Evicted) -> None:
        if isinstance(found, _Evicted):
            exchange.edge.spawn(exchange, _from_history(exchange, offset, found))
        else:
            _send(exchange, found)

    exchange.edge.engine.read(ReadRequest(query, exchange.answering(read)))


def _send(exchange: Exchange, facts: JobFacts) -> None:
    read_jobs(exchange, [facts], partial(_reply, exchange))


def _reply(exchange: Exchange, views: list[JobView]) -> None:
    exchange.reply_json(views[0])


async def _from_history(exchange: Exchange, offset: int, evicted: _Evicted) -> None:
    broker = exchange.edge.broker
    past = await in_thread(
        exchange,
        lambda: read_job_history(
            broker.log.folder, broker.options.history, offset, topic=evicted.topic, end=evicted.end
        ),
    )
    kept_since = exchange.edge.clock.now() - broker.options.limits.jobs_kept_ms
    is_over = past.ended_at is not None and past.ended_at <= kept_since
    if is_over and evicted.facts is None:
        raise JobNotFound(job_id(offset))
    if evicted.facts is not None:
        result = None if is_over else evicted.facts.result if past.result is None else past.result
        _send(exchange, msgspec.structs.replace(evicted.facts, history=_runs(past), result=result))
    elif past.entry is None or not past.state or not _is_own(exchange, past.entry):
        raise JobNotFound(job_id(offset))
    else:
        exchange.reply_json(job_view(_past_facts(offset, past, past.entry), past.entry))


def _is_own(exchange: Exchange, entry: bytes) -> bool:
    """The guard could not tell: only the stored form names the queue of an evicted job."""
    return exchange.tenant is None or exchange.owns(OwnedKind.QUEUE, decode_job(entry).queue)


def _past_facts(offset: int, past: JobTimeline, entry: bytes) -> JobFacts:
    return JobFacts(
        offset=offset,
        state=past.state or "",
        attempts=past.attempts,
        due_at=produced_at(entry) if past.due_at is None else past.due_at,
        last_error=past.last_error or "",
        result=past.result,
        history=_runs(past),
        owner=None,
        lease_until=None,
        waits_for=[],
    )


def _runs(past: JobTimeline) -> list[JobAttempt]:
    return [
        JobAttempt(
            run.owner,
            rfc3339(run.started_at),
            rfc3339(run.ended_at) if run.ended_at is not None else None,
            run.error,
        )
        for _, run in sorted(past.runs.items())
    ]
