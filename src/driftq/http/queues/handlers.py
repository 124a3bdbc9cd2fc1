"""Queues: list them, limit them, pause and resume them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from driftq.core.decide.owners import OwnedName
from driftq.core.jobs.flow_records import QueueLimited, QueuePaused
from driftq.core.jobs.limits import ClaimLimit, ClaimRate, QueueLimits
from driftq.core.owners import OwnedKind
from driftq.core.state import State
from driftq.errors import DriftQError, InvalidArgument
from driftq.http.api.owning import give_to
from driftq.http.api.params import Form, check_name
from driftq.http.api.tenancy import NamedThing, queue_thing
from driftq.http.reads import ask_state, walk_state
from driftq.http.wire.exchange import Exchange
from driftq.model.wire.fields import NAME_MAX, Request
from driftq.model.wire.queues import KeyLimits, QueuesQuery, QueuesReply, SetLimitsBody
from driftq.server.jobs.queue_views import queue_reply, walk_queues
from driftq.server.jobs.requests import JobAction
from driftq.server.walk import Walk

PAGE = 1_000
QUEUES = Form(QueuesQuery)
LIMITS = Form(SetLimitsBody)
NOTHING = Form(Request)


def list_all(exchange: Exchange) -> None:
    asked = QUEUES.read(exchange.body, exchange.query)
    exchange.edge.spawn(exchange, _list(exchange, asked))


async def _list(exchange: Exchange, asked: QueuesQuery) -> None:
    now, wall = exchange.edge.clock.now(), exchange.edge.clock.wall()

    def queues(state: State) -> Walk[QueuesReply]:
        return walk_queues(
            state.jobs,
            now=now,
            wall=wall,
            limit=asked.limit or PAGE,
            after=asked.after or "",
            shown=partial(exchange.owns, OwnedKind.QUEUE),
        )

    exchange.reply_json(await walk_state(exchange.edge, queues))


def limit(exchange: Exchange) -> None:
    """The limits take the place of all earlier ones; an empty object removes them."""
    asked = LIMITS.read(exchange.body, exchange.query)
    queue = _queue(exchange)
    limits = QueueLimits(_limit(asked), _limit(asked.per_key or KeyLimits()))

    def set_limits() -> None:
        exchange.edge.engine.submit(
            JobAction(
                lambda jobs, now, wall: QueueLimited(at=now, queue=queue, limits=limits),
                partial(_changed, exchange, queue),
            )
        )

    give_to(exchange, OwnedName(OwnedKind.QUEUE, queue), asked.tenant, then=set_limits)


def queue_in_path(exchange: Exchange) -> Iterator[NamedThing]:
    yield queue_thing(exchange.names["queue"])


def _limit(asked: KeyLimits) -> ClaimLimit:
    rate = ClaimRate(asked.rate.count, asked.rate.per_ms) if asked.rate is not None else None
    return ClaimLimit(asked.concurrency, rate)


def pause(exchange: Exchange) -> None:
    _pause(exchange, paused=True)


def resume(exchange: Exchange) -> None:
    _pause(exchange, paused=False)


def _pause(exchange: Exchange, *, paused: bool) -> None:
    NOTHING.read(exchange.body, exchange.query)
    queue = _queue(exchange)
    exchange.edge.engine.submit(
        JobAction(
            lambda jobs, now, wall: QueuePaused(at=now, queue=queue, paused=paused),
            partial(_changed, exchange, queue),
        )
    )


def _queue(exchange: Exchange) -> str:
    name = exchange.names["queue"]
    check_name("queue", name)
    if not 0 < len(name) <= NAME_MAX:
        raise InvalidArgument("queue", f"must have 1 to {NAME_MAX} characters")
    return name


def _changed(exchange: Exchange, queue: str, refused: DriftQError | None) -> None:
    if refused is not None:
        exchange.reply_error(refused)
        return
    exchange.edge.spawn(exchange, _show(exchange, queue))


async def _show(exchange: Exchange, queue: str) -> None:
    exchange.reply_json(await ask_state(exchange, lambda state: queue_reply(state.jobs, queue)))
