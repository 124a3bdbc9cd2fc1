"""Lists for the dashboard: topics and groups with their load, and who holds which message until when."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from driftq.core.group import GroupPartition
from driftq.core.state import State, Topic
from driftq.errors import TopicNotFound
from driftq.http.api.params import Form
from driftq.http.reads import walk_state
from driftq.http.ui.overview import group_load, message_count, open_dead_letters
from driftq.http.ui.scope import VisibleScope
from driftq.http.wire.exchange import Exchange
from driftq.model import StreamView
from driftq.model.time import rfc3339
from driftq.model.topic import DEAD_LETTER_PREFIX
from driftq.model.wire.ui import (
    GroupSummaries,
    GroupSummary,
    GroupsViewQuery,
    LeasesQuery,
    LeasesReply,
    LeaseView,
    TopicSummaries,
    TopicSummary,
    ViewQuery,
)
from driftq.server.topics.views import INTERNAL_PREFIX, find_topic, walk_topic_names
from driftq.server.walk import Walk, batches

TOPICS = Form(ViewQuery)
GROUPS = Form(GroupsViewQuery)
LEASES = Form(LeasesQuery)
PAGE = 100
_UNITS_A_ROW = 10
_LEASES_TOGETHER = 250


def topics(exchange: Exchange) -> None:
    """Topics by name, without dead-letter topics: those have a list of their own."""
    asked = TOPICS.read(exchange.body, exchange.query)
    exchange.edge.spawn(exchange, _topics(exchange, asked))


async def _topics(exchange: Exchange, asked: ViewQuery) -> None:
    scope = VisibleScope.of(exchange)
    streams_of = exchange.edge.engine.stages.consumers.streams
    limit, match = asked.limit or PAGE, asked.match or ""

    def wanted(name: str) -> bool:
        return match in name and not name.startswith(DEAD_LETTER_PREFIX) and scope.sees_topic(name)

    def walk(state: State) -> Walk[TopicSummaries]:
        names = yield from walk_topic_names(state, wanted, after=asked.after, at_most=limit + 1)
        rows: list[TopicSummary] = []
        for name in names[:limit]:
            topic = state.topics.get(name)
            if topic is not None:  # Deleted since its name was read.
                rows.append(_topic(state, topic, streams_of(name)))
                yield _units(topic)
        return TopicSummaries(rows, names[limit - 1] if len(names) > limit else None)

    exchange.reply_json(await walk_state(exchange.edge, walk))


def _units(topic: Topic) -> int:
    """Of a summary of the topic."""
    return _UNITS_A_ROW + len(topic.partitions) * (2 + len(topic.groups))


def _topic(state: State, topic: Topic, streams: Sequence[StreamView]) -> TopicSummary:
    loads = [group_load(group.partitions) for group in topic.groups.values()]
    dlq_topic = state.topics.get(DEAD_LETTER_PREFIX + topic.name)
    indexes = [part.index for part in topic.partitions]
    return TopicSummary(
        topic=topic.name,
        partitions=len(topic.partitions),
        messages=message_count(topic),
        bytes=sum(index.total_bytes - index.bytes_before for index in indexes),
        groups=len(topic.groups),
        streams=len(streams),
        lag=sum(lag for lag, _ in loads),
        in_flight=sum(in_flight for _, in_flight in loads),
        dead_letters=open_dead_letters(dlq_topic) if dlq_topic is not None else 0,
    )


def groups(exchange: Exchange) -> None:
    asked = GROUPS.read(exchange.body, exchange.query)
    exchange.edge.spawn(exchange, _groups(exchange, asked))


async def _groups(exchange: Exchange, asked: GroupsViewQuery) -> None:
    scope = VisibleScope.of(exchange)
    streams_of = exchange.edge.engine.stages.consumers.streams
    limit = asked.limit or PAGE

    def walk(state: State) -> Walk[GroupSummaries]:
        rows: list[GroupSummary] = []
        for topic in (yield from _topics_from(state, scope, asked)):
            yield 1 + len(topic.groups)
            for name in _names(topic, asked):
                if name not in topic.groups:
                    continue  # Deleted since its name was read.
                if len(rows) == limit:
                    return GroupSummaries(rows, f"{rows[-1].topic}/{rows[-1].group}")
                rows.append(_group(topic, name, streams_of(topic.name)))
                yield _UNITS_A_ROW + len(topic.partitions)
        return GroupSummaries(rows, None)

    exchange.reply_json(await walk_state(exchange.edge, walk))


def _topics_from(state: State, scope: VisibleScope, asked: GroupsViewQuery) -> Walk[list[Topic]]:
    """The topics whose groups a page may have, by name, from the one on that the page before ended in."""
    first = (asked.after or "").partition("/")[0]

    def wanted(name: str) -> bool:
        return name >= first and asked.topic in (None, name) and scope.sees_topic(name)

    names = yield from walk_topic_names(state, wanted)
    return [topic for name in names if (topic := state.topics.get(name)) is not None]


def _names(topic: Topic, asked: GroupsViewQuery) -> list[str]:
    """The groups of a topic that a page may have, by name."""
    last_topic, _, last_group = (asked.after or "").partition("/")
    match = asked.match or ""
    return [
        name
        for name in sorted(topic.groups)
        if (topic.name, name) > (last_topic, last_group) and (match in topic.name or match in name)
    ]


def _group(topic: Topic, name: str, streams: Sequence[StreamView]) -> GroupSummary:
    lag, in_flight = group_load(topic.groups[name].partitions)
    own = [stream for stream in streams if stream.group == name]
    return GroupSummary(
        topic=topic.name,
        group=name,
        lag=lag,
        in_flight=in_flight,
        streams=len(own),
        stalled=sum(stream.stalled for stream in own),
    )


def leases(exchange: Exchange) -> None:
    """Deliveries of a topic, those that end first, with the settings that no other reply has."""
    asked = LEASES.read(exchange.body, exchange.query)
    if asked.topic.startswith(INTERNAL_PREFIX) or not VisibleScope.of(exchange).sees_topic(asked.topic):
        raise TopicNotFound(asked.topic)

    exchange.edge.spawn(exchange, _first_leases(exchange, asked))


async def _first_leases(exchange: Exchange, asked: LeasesQuery) -> None:
    limit = asked.limit or PAGE

    def walk(state: State) -> Walk[LeasesReply]:
        topic = find_topic(state, asked.topic)
        first: list[_ListedLease] = []
        in_flight = 0
        for name, group in list(topic.groups.items()):
            for number, progress in enumerate(group.partitions):
                in_flight += len(progress.leases)
                if asked.group in (None, name):
                    for some in batches(_leases(name, number, progress), _LEASES_TOGETHER):
                        first = heapq.nsmallest(limit, [*first, *some])
                        yield len(some)
                yield 1
        return LeasesReply(
            [_lease_view(lease) for lease in first],
            in_flight,
            topic.retention_ms,
            topic.options.retention_bytes,
            rfc3339(topic.created_at),
        )

    exchange.reply_json(await walk_state(exchange.edge, walk))


class _ListedLease(NamedTuple):
    """A delivery. Leases sort by their end."""

    until: int
    group: str
    partition: int
    offset: int
    owner: str
    attempt: int


def _leases(group: str, number: int, progress: GroupPartition) -> Iterator[_ListedLease]:
    """The deliveries of a partition; it may change while they are read."""
    leased, index = progress.leases.leased, progress.index
    for ordinal, block in list(leased.items()):
        if leased.get(ordinal) is block and ordinal >= index.first:  # Below it: its group was deleted.
            offset, attempt = index.offset_at(ordinal), progress.attempt_of(ordinal)
            yield _ListedLease(block.until, group, number, offset, block.owner, attempt)


def _lease_view(lease: _ListedLease) -> LeaseView:
    until = rfc3339(lease.until)
    return LeaseView(lease.group, lease.partition, lease.offset, lease.owner, lease.attempt, until)
