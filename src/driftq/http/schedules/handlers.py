"""Schedules: create, replace, list, remove, pause and resume them, and run their jobs by hand."""

from __future__ import annotations

from functools import partial

import msgspec

from driftq.core.schedules.records import ScheduleTerms
from driftq.core.schedules.transitions import require_schedule
from driftq.core.state import State
from driftq.errors import DriftQError, InvalidArgument
from driftq.http.api.params import Form, check_json, check_name
from driftq.http.jobs.requested import requested_retry
from driftq.http.reads import walk_state
from driftq.http.schedules.tenants import is_own
from driftq.http.wire.exchange import Exchange
from driftq.model.job import JOB_PAYLOAD_MAX
from driftq.model.options.jobs import JobOptions
from driftq.model.wire.fields import Request
from driftq.model.wire.jobs import EnqueuedJob
from driftq.model.wire.queues import (
    QueuesQuery,
    RemovedSchedule,
    ReplaceScheduleBody,
    ScheduleBody,
    ScheduleContent,
    SchedulesReply,
    ScheduleView,
)
from driftq.server.requests import ReadRequest
from driftq.server.schedules.cron import check_cron
from driftq.server.schedules.requests import (
    PauseScheduleRequest,
    RemoveScheduleRequest,
    RunScheduleRequest,
    SetScheduleRequest,
)
from driftq.server.schedules.views import schedule_view, walk_schedules
from driftq.server.walk import Walk

PAGE = 1_000
CREATE = Form(ScheduleBody)
REPLACE = Form(ReplaceScheduleBody)
SCHEDULES = Form(QueuesQuery)
NOTHING = Form(Request)
_PRIORITY = 5


def name_in_body(exchange: Exchange) -> str:
    return CREATE.read(exchange.body, exchange.query).name


def name_in_path(exchange: Exchange) -> str:
    return exchange.names["name"]


def create(exchange: Exchange) -> None:
    asked = CREATE.read(exchange.body, exchange.query)
    _set(exchange, _terms(asked.name, asked, exchange.edge.broker.options.jobs), replace=False)


def replace(exchange: Exchange) -> None:
    asked = REPLACE.read(exchange.body, exchange.query)
    name = exchange.names["name"]
    if asked.name not in (None, name):
        raise InvalidArgument("name", f"must be {name!r}, as in the path")
    _set(exchange, _terms(name, asked, exchange.edge.broker.options.jobs), replace=True)


def _terms(name: str, asked: ScheduleContent, options: JobOptions) -> ScheduleTerms:
    for field, text in (("name", name), ("queue", asked.queue), ("task", asked.task)):
        check_name(field, text)
    timezone = asked.timezone or "UTC"
    check_cron(asked.cron, timezone)
    payload = b"null"
    if isinstance(asked.payload, msgspec.Raw):
        check_json("payload", asked.payload, limit_bytes=JOB_PAYLOAD_MAX)
        payload = bytes(asked.payload)
    max_retries, retry = requested_retry(asked.retry, asked.max_retries, options)
    return ScheduleTerms(
        name=name,
        cron=" ".join(asked.cron.split()),
        timezone=timezone,
        queue=asked.queue,
        task=asked.task,
        payload=payload.decode(),
        missed=asked.missed or "skip",
        priority=_PRIORITY if asked.priority is None else asked.priority,
        max_retries=max_retries,
        timeout_ms=asked.timeout_ms or 0,
        retry=retry,
    )


def _set(exchange: Exchange, terms: ScheduleTerms, *, replace: bool) -> None:
    def done(status: int) -> None:
        _send(exchange, terms.name, status=status)

    exchange.edge.engine.submit(SetScheduleRequest(terms, replace, exchange.answering(done)))


def _send(exchange: Exchange, name: str, *, status: int = 200) -> None:
    def query(state: State) -> ScheduleView:
        return schedule_view(require_schedule(state.schedules, name))

    reply = exchange.answering(partial(exchange.reply_json, status=status))
    exchange.edge.engine.read(ReadRequest(query, reply))


def show(exchange: Exchange) -> None:
    NOTHING.read(exchange.body, exchange.query)
    _send(exchange, exchange.names["name"])


def list_all(exchange: Exchange) -> None:
    asked = SCHEDULES.read(exchange.body, exchange.query)
    exchange.edge.spawn(exchange, _list(exchange, asked))


async def _list(exchange: Exchange, asked: QueuesQuery) -> None:
    def schedules(state: State) -> Walk[SchedulesReply]:
        return walk_schedules(
            state.schedules,
            limit=asked.limit or PAGE,
            after=asked.after or "",
            shown=lambda name: is_own(exchange, name),
        )

    exchange.reply_json(await walk_state(exchange.edge, schedules))


def remove(exchange: Exchange) -> None:
    NOTHING.read(exchange.body, exchange.query)
    name = exchange.names["name"]

    def done(_: None) -> None:
        exchange.reply_json(RemovedSchedule(name))

    exchange.edge.engine.submit(RemoveScheduleRequest(name, exchange.answering(done)))


def pause(exchange: Exchange) -> None:
    _pause(exchange, paused=True)


def resume(exchange: Exchange) -> None:
    _pause(exchange, paused=False)


def _pause(exchange: Exchange, *, paused: bool) -> None:
    NOTHING.read(exchange.body, exchange.query)
    name = exchange.names["name"]
    reply = exchange.answering(lambda _: _send(exchange, name))
    exchange.edge.engine.submit(PauseScheduleRequest(name, paused, reply))


def run(exchange: Exchange) -> None:
    """Enqueue the job of a schedule now. The schedule's own fires do not change."""
    NOTHING.read(exchange.body, exchange.query)
    reply = exchange.answering(partial(_ran, exchange))
    exchange.edge.engine.submit(RunScheduleRequest(exchange.names["name"], reply))


def _ran(exchange: Exchange, outcomes: list[EnqueuedJob | DriftQError]) -> None:
    (outcome,) = outcomes
    if isinstance(outcome, DriftQError):
        exchange.reply_error(outcome)
    else:
        exchange.reply_json(outcome, status=201)
