"""Reading a topic without a group: its records, spans of them, and the progress of readers.

GET …/records gives stored messages as they are, without side effects: those that were durable when the
request was decided. The reply goes out in chunks; the next is read when the client has taken the last. A
thread reads bytes that are not in memory.

POST …/spans says how many messages lie between offsets, and where to cut them: offsets have holes in a
partition, and a reader uses this to cut them into equal pieces. It changes nothing.

POST …/readers records how far a reader is.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from driftq.core.index import PartitionIndex
from driftq.core.state import State, Topic
from driftq.errors import InvalidArgument, Unavailable
from driftq.http.api.params import Form, check_name
from driftq.http.reads import read_stored
from driftq.http.topics.waiting import wait_for_messages
from driftq.http.wire.exchange import LAST_CHUNK, NDJSON, Exchange, chunk
from driftq.model.wire.messages import RecordsQuery
from driftq.model.wire.topics import ReaderBody, SpanBody, SpanReply, SpansBody, SpansReply
from driftq.server.requests import ReaderRequest, ReadRequest
from driftq.server.topics.views import find_topic
from driftq.storage.entry import BODY_AT, produced_at
from driftq.storage.payloads import EntriesGone

RECORDS = Form(RecordsQuery)
SPANS = Form(SpansBody)
READER = Form(ReaderBody)
PIECE_MESSAGES = 512
PIECE_BYTES = 256 << 10
CUTS_MAX = 10_000
_PARTITION = re.compile(r"0|[1-9][0-9]{0,8}")

logger = logging.getLogger("driftq.http")


@dataclass(frozen=True, slots=True)
class OrdinalRange:
    """Messages of one partition that are to be sent."""

    partition: int
    index: PartitionIndex
    ordinals: range


def records(exchange: Exchange) -> None:
    asked = RECORDS.read(exchange.body, exchange.query)

    def query(state: State) -> list[OrdinalRange]:
        return find_ranges(state, exchange.topic, asked)

    def send(ranges: list[OrdinalRange]) -> None:
        RecordsStream(exchange).start(ranges)

    exchange.edge.engine.read(ReadRequest(query, exchange.answering(send)))


def find_ranges(state: State, name: str, params: RecordsQuery) -> list[OrdinalRange]:
    """The messages that a request selects in the state as it is now."""
    topic = find_topic(state, name)
    numbers = range(len(topic.partitions))
    if params.partition is not None:
        if params.partition not in numbers:
            raise InvalidArgument("partition", f"must be from 0 to {len(numbers) - 1}")
        numbers = range(params.partition, params.partition + 1)
    left = params.limit
    ranges: list[OrdinalRange] = []
    for number in numbers:
        index = topic.partitions[number].index
        start = index.first_ordinal_from(params.from_ or 0)
        stop = index.end if params.to is None else min(index.end, index.first_ordinal_from(params.to))
        if left is not None:
            stop = min(stop, start + left)
            left -= max(0, stop - start)
        if start < stop:
            ranges.append(OrdinalRange(number, index, range(start, stop)))
    return ranges


class RecordsStream:
    """One reply in progress."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._connection = exchange.connection
        self._edge = exchange.edge
        self._task: asyncio.Task[None] | None = None
        self._room = asyncio.Event()

    def start(self, ranges: list[OrdinalRange]) -> None:
        if self._connection.is_first(self._exchange):
            self._task = self._edge.spawn(self._exchange, self._send(ranges))

    def resumed(self) -> None:
        self._room.set()

    def lost(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _send(self, ranges: list[OrdinalRange]) -> None:
        chunked = not self._exchange.old
        close = self._exchange.ends_connection = self._exchange.ends_connection or not chunked
        began = False
        try:
            for span in ranges:
                for ordinals in pieces(span):
                    kept, entries = await self._fetch(span.index, ordinals)
                    content = lines(span, kept, entries)
                    if not self._connection.is_first(self._exchange):
                        return  # The client did not wait.
                    if not began:
                        self._begin(chunked=chunked, close=close)
                        began = True
                    if content:
                        self._connection.write(chunk(content) if chunked else content)
                    await self._wait_for_room()
        except Unavailable:
            if not began:
                raise
            self._connection.abort()  # The status is sent: only a cut connection can report the error.
            return
        if not began:
            self._begin(chunked=chunked, close=close)
        if chunked:
            self._connection.write(LAST_CHUNK)
        self._connection.end(self._exchange)

    def _begin(self, *, chunked: bool, close: bool) -> None:
        head = self._edge.heads.stream(content_type=NDJSON, chunked=chunked, close=close)
        self._connection.begin(self._exchange, head, self)

    async def _fetch(self, index: PartitionIndex, ordinals: range) -> tuple[range, list[bytes]]:
        """The messages that are still there, and their stored forms."""
        while True:
            kept = range(max(ordinals.start, index.first), ordinals.stop)
            if not kept:
                return kept, []
            try:
                entries = await read_stored(self._edge, index, kept)
            except EntriesGone:
                continue
            if kept.start >= index.first:
                return kept, entries

    async def _wait_for_room(self) -> None:
        """Yield to other connections, and wait for a slow client."""
        await asyncio.sleep(0)
        while self._connection.writing_paused:
            self._room.clear()
            await self._room.wait()


def pieces(span: OrdinalRange) -> Iterator[range]:
    """Ordinals that are read and sent together."""
    index, (start, stop) = span.index, (span.ordinals.start, span.ordinals.stop)
    while start < stop:
        count = min(PIECE_MESSAGES, stop - start)
        before = index.bytes_upto(start)
        while count > 1 and index.bytes_upto(start + count) - before > PIECE_BYTES:
            count //= 2
        yield range(start, start + count)
        start += count


def lines(span: OrdinalRange, ordinals: range, entries: list[bytes]) -> bytes:
    """NDJSON around the stored text."""
    head = b'{"partition":%d,"offset":' % span.partition
    offsets: list[int] = []
    for part, slots in span.index.runs(ordinals.start, ordinals.stop):
        offsets += part.offsets[slots.start : slots.stop]
    second, text = -1, b""
    made: list[bytes] = []
    for offset, entry in zip(offsets, entries, strict=True):
        seconds, ms = divmod(produced_at(entry), 1000)
        if seconds != second:
            second = seconds
            text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)).encode()
        made.append(b'%b%d,"timestamp":"%b.%03dZ",%b\n' % (head, offset, text, ms, entry[BODY_AT:]))
    return b"".join(made)


# Spans


def spans(exchange: Exchange) -> None:
    asked = SPANS.read(exchange.body, exchange.query)
    instance = exchange.edge.options.instance

    def query(state: State) -> SpansReply:
        topic = find_topic(state, exchange.topic)
        wanted = asked.spans
        if wanted is None:
            wanted = [SpanBody(partition=number) for number in range(len(topic.partitions))]
        found = [find_span(topic, span) for span in wanted]
        return SpansReply(
            instance, topic.next_offset, len(topic.partitions), table=topic.options.table, spans=found
        )

    if asked.wait_ms:
        task = exchange.edge.spawn(exchange, wait_for_messages(exchange, query, wait_ms=asked.wait_ms))
        exchange.on_lost = partial(_cancel, task)
    else:
        exchange.edge.engine.read(ReadRequest(query, exchange.answering(exchange.reply_json)))


def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()


def find_span(topic: Topic, span: SpanBody) -> SpanReply:
    """The messages of a span in the topic as it is now."""
    if not 0 <= span.partition < len(topic.partitions):
        raise InvalidArgument("partition", f"must be from 0 to {len(topic.partitions) - 1}")
    index = topic.partitions[span.partition].index
    from_ = span.from_ or 0
    start = index.first_ordinal_from(from_)
    stop = index.end if span.to is None else max(start, min(index.end, index.first_ordinal_from(span.to)))
    if span.limit is not None:
        stop = min(stop, start + span.limit)
    return SpanReply(
        partition=span.partition,
        first_offset=index.first_offset,
        from_=from_,
        to=index.offset_at(stop - 1) + 1 if stop > start else from_,
        messages=stop - start,
        behind=index.end - start,
        cuts=[] if span.every is None else _cuts(index, range(start, stop), span.every),
    )


def _cuts(index: PartitionIndex, ordinals: range, every: int) -> list[int]:
    cuts = range(ordinals.start + every, ordinals.stop, every)
    if len(cuts) > CUTS_MAX:
        raise InvalidArgument("every", f"would give {len(cuts)} cuts, more than {CUTS_MAX}")
    return [index.offset_at(ordinal) for ordinal in cuts]


# Readers


def report_reader(exchange: Exchange) -> None:
    """Record a reader's progress; from then on it counts for backpressure as a group does."""
    asked = READER.read(exchange.body, exchange.query)
    check_name("reader", asked.reader)
    offsets: dict[int, int] = {}
    for partition, offset in (asked.offsets or {}).items():
        if not _PARTITION.fullmatch(partition):
            raise InvalidArgument("offsets", f"{partition[:40]!r} is not the number of a partition")
        offsets[int(partition)] = offset

    def send(_: Any) -> None:
        exchange.reply_done()

    exchange.edge.engine.submit(
        ReaderRequest(exchange.topic, asked.reader, offsets, exchange.answering(send))
    )
