"""POST /v1/jobs/requeue: dead jobs by queue and filter, as a dry run or at a rate.

The handler reads only what the filter needs, page by page. An interrupted call has requeued each job once or
not at all: a requeued job is no longer dead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from driftq.core.owners import OwnedKind
from driftq.core.state import State
from driftq.errors import InvalidArgument, WrongJobState
from driftq.http.api.params import Form
from driftq.http.pacing import in_parts
from driftq.http.reads import ask_state
from driftq.http.wire.exchange import Exchange
from driftq.model.time import parse_rfc3339
from driftq.model.wire.jobs import DeadJobMatch, RequeueBody, RequeuedJobs
from driftq.server.jobs.dead import DeadJob, dead_jobs, read_tasks
from driftq.server.jobs.requests import requeue

REQUEUE = Form(RequeueBody)
_PAGE = 1_000
_TOGETHER = 100


def requeue_jobs(exchange: Exchange) -> None:
    asked = REQUEUE.read(exchange.body, exchange.query)
    wanted = asked.filter or DeadJobMatch()
    since, until = _instant("since", wanted.since), _instant("until", wanted.until)
    exchange.edge.spawn(exchange, _requeue(exchange, asked, wanted, since, until))


def _instant(field: str, text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return parse_rfc3339(text)
    except (ValueError, OverflowError) as error:
        raise InvalidArgument(f"filter.{field}", "must be an RFC 3339 time with a zone") from error


async def _requeue(
    exchange: Exchange, asked: RequeueBody, wanted: DeadJobMatch, since: int | None, until: int | None
) -> None:
    matched: list[int] = []
    start: int | None = 0
    while start is not None:
        page, start = await _page(exchange, asked.queue, start)
        found = [job for job in page if _matches(job, wanted.error, since, until) and _is_own(exchange, job)]
        matched += await _of_task(exchange, [job.offset for job in found], wanted.task)
    requeued = 0
    if not asked.dry_run:
        async for part in in_parts(matched, together=_TOGETHER, rate_per_s=asked.rate_per_s):
            requeued += await _requeue_part(exchange, part)
    exchange.reply_json(RequeuedJobs(len(matched), requeued))


async def _page(exchange: Exchange, queue: str | None, start: int) -> tuple[list[DeadJob], int | None]:
    def query(state: State) -> tuple[list[DeadJob], int | None]:
        return dead_jobs(state, queue=queue, start=start, limit=_PAGE)

    return await ask_state(exchange, query)


def _matches(job: DeadJob, error: str | None, since: int | None, until: int | None) -> bool:
    if error is not None and error not in job.last_error:
        return False
    return (since is None or job.ended_at >= since) and (until is None or job.ended_at < until)


def _is_own(exchange: Exchange, job: DeadJob) -> bool:
    """With a tenant's key, jobs of other queues match nothing; a job that is gone is nobody's."""
    if exchange.tenant is None:
        return True
    jobs = exchange.edge.engine.state.jobs
    return jobs.slot(job.offset) is not None and exchange.owns(OwnedKind.QUEUE, jobs.queue_of(job.offset))


async def _of_task(exchange: Exchange, offsets: list[int], task: str | None) -> list[int]:
    """Those of one task, by their stored forms."""
    if task is None or not offsets:
        return offsets
    tasks = await read_tasks(exchange.edge.engine.stages.job_reader, offsets)
    return [offset for offset, name in zip(offsets, tasks, strict=True) if name == task]


async def _requeue_part(exchange: Exchange, offsets: Sequence[int]) -> int:
    """Requeue these in one commit; how many were still dead."""
    loop = asyncio.get_running_loop()
    answers: list[asyncio.Future[Any]] = [loop.create_future() for _ in offsets]
    for offset, answer in zip(offsets, answers, strict=True):
        exchange.edge.engine.submit(requeue(offset, answer.set_result))
    outcomes = await asyncio.gather(*answers)
    for outcome in outcomes:
        if outcome is not None and not isinstance(outcome, WrongJobState):
            raise outcome
    return sum(outcome is None for outcome in outcomes)
