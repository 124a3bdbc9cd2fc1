"""GET /v1/messages/{topic}/{offset}: everything that happened to one message.

The reply holds what was durable when the engine decided the request: the housekeeper's history, and the
later records, which a thread reads. Only one such read runs at a time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from driftq.core.index import PartitionIndex
from driftq.core.state import State, Topic
from driftq.errors import InvalidArgument, MessageNotFound, TopicNotFound
from driftq.history.message import MessageHistory, MessageQuery
from driftq.history.replay import Names, read_message_histories
from driftq.http.api.params import Form
from driftq.http.explain.timeline import group_statuses, timeline
from driftq.http.reads import ask_state, in_thread, read_stored
from driftq.http.wire.exchange import Exchange
from driftq.log.frame import LogEnd
from driftq.model.time import rfc3339
from driftq.model.topic import DEAD_LETTER_PREFIX
from driftq.model.wire.explain import ExplainedMessage
from driftq.model.wire.fields import Request
from driftq.server.topics.views import INTERNAL_PREFIX
from driftq.storage.entry import decode_entry, produced_at
from driftq.storage.payloads import EntriesGone

NOTHING = Form(Request)
_OFFSET = re.compile(r"0|[1-9][0-9]{0,17}")


@dataclass(frozen=True, slots=True)
class Found:
    """Messages from the state, and the arguments for reading their history."""

    wanted: Sequence[MessageQuery]
    groups: list[dict[str, bool]]
    """For each message, whether it is settled in each group of its topic."""
    names: Names
    end: LogEnd


def explain(exchange: Exchange) -> None:
    NOTHING.read(exchange.body, exchange.query)
    text = exchange.names["offset"]
    if not _OFFSET.fullmatch(text):
        raise InvalidArgument("offset", "must be a number from 0 on")
    exchange.edge.spawn(exchange, _explain(exchange, int(text)))


async def _explain(exchange: Exchange, offset: int) -> None:
    topic = exchange.topic
    index: PartitionIndex | None = None

    def query(state: State) -> Found:
        nonlocal index
        found = state.topics.get(topic)
        if found is None or topic.startswith(INTERNAL_PREFIX):
            raise TopicNotFound(topic)
        place = found.locate(offset)
        if place is None:
            raise MessageNotFound(topic, offset=offset)
        index = found.partitions[place[0]].index
        return find(exchange, state, [(found, *place, offset)])

    found = await ask_state(exchange, query)
    [wanted] = found.wanted
    assert index is not None
    entry = await _entry(exchange, index, wanted)
    history = (await read_histories(exchange, found))[wanted]
    stored, at = decode_entry(entry), produced_at(entry)
    exchange.reply_json(
        ExplainedMessage(
            topic=topic,
            partition=wanted.partition,
            offset=offset,
            key=stored.key,
            value=stored.value,
            produced_at=rfc3339(at),
            groups=group_statuses(history, found.groups[0]),
            history=timeline(
                history,
                topic=topic,
                produced_at=at,
                deliver_at=stored.envelope.deliver_at if stored.envelope is not None else None,
            ),
            envelope=stored.envelope,
            routing=stored.routing,
            requested_topic=stored.requested_topic,
        )
    )


async def _entry(exchange: Exchange, index: PartitionIndex, wanted: MessageQuery) -> bytes:
    try:
        [entry] = await read_stored(exchange.edge, index, [wanted.ordinal])
    except EntriesGone:
        raise MessageNotFound(exchange.topic, offset=wanted.offset) from None
    return entry


def find(exchange: Exchange, state: State, places: Iterable[tuple[Topic, int, int, int]]) -> Found:
    """The facts that explain messages given by topic, partition, ordinal and offset; runs in a turn."""
    wanted: list[MessageQuery] = []
    settled: list[dict[str, bool]] = []
    groups: dict[int, tuple[int, str]] = {}
    dlq_topics: dict[int, int] = {}
    for topic, partition, ordinal, offset in places:
        wanted.append(MessageQuery(topic.id, partition, ordinal, offset))
        settled.append(
            {group.name: group.partitions[partition].is_settled(ordinal) for group in topic.groups.values()}
        )
        groups.update((group.id, (topic.id, group.name)) for group in topic.groups.values())
        dlq_topic = state.topics.get(DEAD_LETTER_PREFIX + topic.name)
        if dlq_topic is not None:
            dlq_topics[dlq_topic.id] = topic.id
    return Found(wanted, settled, Names(groups, dlq_topics), exchange.edge.broker.log.confirmed)


async def read_histories(exchange: Exchange, found: Found) -> dict[MessageQuery, MessageHistory]:
    broker = exchange.edge.broker
    return await in_thread(
        exchange,
        lambda: read_message_histories(
            broker.log.folder, broker.options.history, found.wanted, found.names, end=found.end
        ),
    )
