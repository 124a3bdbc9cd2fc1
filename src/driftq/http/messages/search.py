"""GET /v1/topics/{topic}/messages: stored messages by key, run, tenant, offset or time.

The reply holds what was durable when the engine decided the request. Offsets and partitions are found in the
memory's index; `driftq.history.finding` says how a thread finds the rest.
"""

from __future__ import annotations

from driftq.core.state import State
from driftq.errors import InvalidArgument, TopicNotFound
from driftq.history.finding import FoundMessage, MessageFilter, MessagePage, PartitionSlice, slices_of
from driftq.http.api.params import Form
from driftq.http.reads import ask_state, search_stored
from driftq.http.wire.exchange import Exchange
from driftq.model.time import parse_rfc3339, rfc3339
from driftq.model.topic import INTERNAL_PREFIX
from driftq.model.wire.messages import MessagesQuery
from driftq.storage.entry import BODY_AT, produced_at

MESSAGES = Form(MessagesQuery)
_PAGE = 100


def find(exchange: Exchange) -> None:
    asked = MESSAGES.read(exchange.body, exchange.query)
    wanted = MessageFilter(
        key=asked.key,
        run_id=asked.run_id,
        tenant_id=asked.tenant_id,
        since=_instant("since", asked.since),
        until=_instant("until", asked.until),
    )
    exchange.edge.spawn(exchange, _find(exchange, asked, wanted))


async def _find(exchange: Exchange, asked: MessagesQuery, wanted: MessageFilter) -> None:
    newest_first = asked.order == "newest"

    def begin(state: State) -> tuple[int, list[PartitionSlice], int]:
        topic = state.topics.get(exchange.topic)
        if topic is None or exchange.topic.startswith(INTERNAL_PREFIX):
            raise TopicNotFound(exchange.topic)
        if asked.partition is not None and not 0 <= asked.partition < len(topic.partitions):
            raise InvalidArgument("partition", f"must be from 0 to {len(topic.partitions) - 1}")
        return topic.id, slices_of(topic, asked.partition), topic.next_offset

    topic, slices, end = await ask_state(exchange, begin)
    first = 0
    if asked.offset is not None:
        first, end = asked.offset, min(end, asked.offset + 1)
    if asked.after is not None:
        first, end = (first, min(end, asked.after)) if newest_first else (max(first, asked.after + 1), end)
    page = await search_stored(
        exchange,
        slices,
        wanted,
        topic=topic,
        offsets=range(first, end),
        limit=asked.limit or _PAGE,
        newest_first=newest_first,
    )
    exchange.reply_ok(_body(page))


def _body(page: MessagePage) -> bytes:
    """JSON around the stored text."""
    more = b"" if page.more_after is None else b',"next":%d' % page.more_after
    return b'{"messages":[%b]%b}' % (b",".join(map(_message, page.messages)), more)


def _message(found: FoundMessage) -> bytes:
    at = rfc3339(produced_at(found.entry)).encode()
    head = b'{"partition":%d,"offset":%d,"timestamp":"%b",' % (found.partition, found.offset, at)
    return head + found.entry[BODY_AT:]


def _instant(name: str, text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return parse_rfc3339(text)
    except ValueError:
        raise InvalidArgument(name, "must be an instant like 2026-01-31T12:00:00Z") from None
