"""Lists for the dashboard: topics and groups with their load, and who holds which message until when."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from itertools import islice

from driftq.core.state import State, Topic
from driftq.errors import TopicNotFound
from driftq.http.api.params import Form
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
from driftq.server.requests import ReadRequest
from driftq.server.topics.views import INTERNAL_PREFIX, find_topic, topic_names

TOPICS = Form(ViewQuery)
GROUPS = Form(GroupsViewQuery)
LEASES = Form(LeasesQuery)
PAGE = 100


def topics(exchange: Exchange) -> None:
    """Topics by name, without dead-letter topics: those have a list of their own."""
    asked = TOPICS.read(exchange.body, exchange.query)
    scope = VisibleScope.of(exchange)
    streams_of = exchange.edge.engine.stages.consumers.streams
    limit, match = asked.limit or PAGE, asked.match or ""

    def query(state: State) -> TopicSummaries:
        found = [name for name in _names(state, scope, after=asked.after) if match in name]
        rows = [_topic(state, state.topics[name], streams_of(name)) for name in found[:limit]]
        return TopicSummaries(rows, rows[-1].topic if len(found) > limit else None)

    exchange.edge.engine.read(ReadRequest(query, exchange.answering(exchange.reply_json)))


def _names(state: State, scope: VisibleScope, *, after: str | None) -> Iterator[str]:
    for name in topic_names(state):
        if (after is None or name > after) and not name.startswith(DEAD_LETTER_PREFIX):
            if scope.sees_topic(name):
                yield name


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
    scope = VisibleScope.of(exchange)
    streams_of = exchange.edge.engine.stages.consumers.streams
    limit, match = asked.limit or PAGE, asked.match or ""

    def query(state: State) -> GroupSummaries:
        found = list(islice(_groups(state, scope, asked, match), limit + 1))
        rows = [_group(state.topics[topic], group, streams_of(topic)) for topic, group in found[:limit]]
        more = len(found) > limit
        return GroupSummaries(rows, f"{rows[-1].topic}/{rows[-1].group}" if more else None)

    exchange.edge.engine.read(ReadRequest(query, exchange.answering(exchange.reply_json)))


def _groups(
    state: State, scope: VisibleScope, asked: GroupsViewQuery, match: str
) -> Iterator[tuple[str, str]]:
    """Topic and name of each group, in order, after the given one."""
    first_topic, _, first_group = (asked.after or "").partition("/")
    for name in topic_names(state):
        if name < first_topic or asked.topic not in (None, name) or not scope.sees_topic(name):
            continue
        for group in sorted(state.topics[name].groups):
            if (name, group) > (first_topic, first_group) and (match in name or match in group):
                yield name, group


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

    def query(state: State) -> LeasesReply:
        topic = find_topic(state, asked.topic)
        in_flight = sum(group_load(group.partitions)[1] for group in topic.groups.values())
        held = heapq.nsmallest(asked.limit or PAGE, _leases(topic, asked.group), key=lambda one: one[0])
        return LeasesReply(
            [view for _, view in held],
            in_flight,
            topic.retention_ms,
            topic.options.retention_bytes,
            rfc3339(topic.created_at),
        )

    exchange.edge.engine.read(ReadRequest(query, exchange.answering(exchange.reply_json)))


def _leases(topic: Topic, wanted: str | None) -> Iterator[tuple[int, LeaseView]]:
    """Each delivery with the end of its lease."""
    for name, group in topic.groups.items():
        if wanted not in (None, name):
            continue
        for number, progress in enumerate(group.partitions):
            for block, ordinals in progress.leases.blocks():
                for ordinal in ordinals:
                    offset = progress.index.offset_at(ordinal)
                    until = rfc3339(block.until)
                    attempt = progress.attempt_of(ordinal)
                    yield block.until, LeaseView(name, number, offset, block.owner, attempt, until)
