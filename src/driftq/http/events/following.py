"""Groups that follow the event log over HTTP: each keeps its position, and may wait for the next event."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from driftq.errors import InvalidArgument
from driftq.http.api.params import Form, check_name
from driftq.http.events.handlers import (
    PAGE_EVENTS,
    events_service,
    is_at_end,
    read_waiting,
    replying,
    wanted_events,
)
from driftq.http.wire.exchange import Exchange
from driftq.model.time import rfc3339
from driftq.model.wire.events import (
    EventLine,
    FollowBody,
    FollowerLine,
    FollowerReply,
    FollowersReply,
    FollowReply,
    MoveFollowerBody,
    OpenFollowerBody,
)
from driftq.model.wire.fields import NAME_MAX, PageQuery, Request
from driftq.server.events.service import EventQueryRequest

if TYPE_CHECKING:
    from driftq.eventstore import EventStore

OPEN = Form(OpenFollowerBody)
FOLLOW = Form(FollowBody)
MOVE = Form(MoveFollowerBody)
GROUPS = Form(PageQuery)
NOTHING = Form(Request)
PAGE_GROUPS = 100

_encoder = msgspec.json.Encoder()


def open_group(exchange: Exchange) -> None:
    asked = OPEN.read(exchange.body, exchange.query)
    group = _group(exchange)

    def query(store: EventStore) -> FollowerReply:
        start = store.log_end() if asked.start == "latest" else 0
        opened = store.followers.open(group, start=start)
        return FollowerReply(group, opened.token, opened.position)

    request = EventQueryRequest(query, replying(exchange, exchange.reply_json), placed=True, wakes=True)
    events_service(exchange).read(request)


def read_on(exchange: Exchange) -> None:
    """A follower that was replaced gets the error at once, also while it waits."""
    asked = FOLLOW.read(exchange.body, exchange.query)
    group = _group(exchange)
    limit = PAGE_EVENTS if asked.limit is None else asked.limit
    position: int | None = None

    def query(store: EventStore, final: bool) -> bytes | None:
        nonlocal position
        if position is None and asked.position is not None:
            _move(store, group, token=asked.token, position=asked.position)
        handled = store.followers.require_current(group, token=asked.token)
        start = handled + 1 if position is None else position
        page = store.read_log(from_position=start, limit=limit, wanted=wanted_events(exchange, asked))
        position = page.next_position
        if not final and is_at_end(store, page):
            return None
        return _encoder.encode(FollowReply([EventLine.of(event) for event in page.events], position))

    read_waiting(exchange, query, exchange.reply_ok, wait_ms=asked.wait_ms)


def move_group(exchange: Exchange) -> None:
    asked = MOVE.read(exchange.body, exchange.query)
    move = partial(_move, group=_group(exchange), token=asked.token, position=asked.position)
    _change(exchange, move)


def delete_group(exchange: Exchange) -> None:
    NOTHING.read(exchange.body, exchange.query)
    group = _group(exchange)
    _change(exchange, lambda store: store.followers.delete(group))


def list_groups(exchange: Exchange) -> None:
    asked = GROUPS.read(exchange.body, exchange.query)
    limit = PAGE_GROUPS if asked.limit is None else min(asked.limit, PAGE_EVENTS)

    def query(store: EventStore) -> FollowersReply:
        end = store.log_end()
        found = store.followers.listed(after=asked.after or "", limit=limit + 1)
        lines = [
            FollowerLine(one.name, one.position, max(0, end - one.position), rfc3339(one.moved_at))
            for one in found[:limit]
        ]
        return FollowersReply(lines, lines[-1].group if len(found) > limit else None)

    request = EventQueryRequest(query, replying(exchange, exchange.reply_json), placed=True)
    events_service(exchange).read(request)


def _change(exchange: Exchange, change: Any) -> None:
    """A change of a group: reads that wait are asked again, because it may end them."""
    reply = replying(exchange, lambda _: exchange.reply_done())
    events_service(exchange).read(EventQueryRequest(change, reply, wakes=True))


def _move(store: EventStore, group: str, *, token: int, position: int) -> None:
    store.followers.require_current(group, token=token)
    if position > store.log_end():
        raise InvalidArgument("position", "must not be after the end of the event log")
    store.followers.move(group, token=token, position=position)


def _group(exchange: Exchange) -> str:
    if len(exchange.group) > NAME_MAX:
        raise InvalidArgument("group", f"must have at most {NAME_MAX} characters")
    check_name("group", exchange.group)
    return exchange.group
