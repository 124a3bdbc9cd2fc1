"""Events of lanes, appended to their DriftQ topics in log order.

What is sent twice is sent with the same positions, and the topic skips it.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

import msgspec

from driftq.errors import LaneBehind, Overloaded, TopicExists, TopicNotFound, WriterFenced
from driftq.eventstore.published import encode_published, topic_of, trace_of
from driftq.eventstore.stored import StoredEvent
from driftq.model import Envelope
from driftq.model.options.credentials import NO_CREDENTIALS, Credentials
from driftq.model.wire.append import AppendReceipt, OpenWriter, PositionedMessage
from driftq.telemetry.tracing import is_sampled
from driftq.transport.paths import topic_path
from driftq.transport.server import Server

CHUNK_BYTES = 4 << 20
"""Of keys and values in one request: well below the server's limit."""
TRACES_MAX = 64
"""Traces that one report names, for spans."""
TOPIC_PARTITIONS = 4
"""Of a topic that the publisher creates; an existing one is used as it is."""


def lane_of(aggregate_id: str, lanes: int) -> int:
    """The lane of an aggregate. Spark's publisher computes the same: both must, or order is lost."""
    return zlib.crc32(aggregate_id.encode()) % lanes


class Refusal(msgspec.Struct, frozen=True):
    """Why a topic refused an append: the publisher raises the corresponding error."""

    replaced: bool
    """A newer run has started; otherwise the topic has lost confirmed messages."""
    text: str


class PublishReport(msgspec.Struct):
    """What became of some events."""

    appended: int = 0
    skipped: int = 0
    position: int = 0
    """The last position that was given."""
    topics: dict[str, dict[int, int]] = {}
    recent: list[tuple[int, str]] = []
    refusal: Refusal | None = None
    traces: list[str] = []
    """The sampled traces of these events, up to a limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneAppends:
    """How a run appends, as plain values."""

    url: str
    writer: str
    epoch: int
    confirmed: dict[str, dict[int, int]]
    """The confirmed positions of the topics; one that has less must not be written to."""
    sent_ids: frozenset[str]
    chunk_events: int
    patience_s: float
    recent_max: int
    credentials: Credentials = NO_CREDENTIALS

    def append(self, events: Iterable[tuple[int, StoredEvent]]) -> PublishReport:
        """Events with their lanes, each lane in log order. A refusal is part of the report."""
        server = Server(self.url, credentials=self.credentials, patience_s=self.patience_s)
        sender = LaneSender(
            server,
            writer=self.writer,
            epoch=self.epoch,
            chunk=self.chunk_events,
            confirmed=self.confirmed,
            partitions=TOPIC_PARTITIONS,
        )
        recent: deque[tuple[int, str]] = deque(maxlen=self.recent_max)
        report = PublishReport()
        try:
            for lane, event in events:
                if event.event_id not in self.sent_ids:
                    trace = trace_of(event.metadata)
                    message = PositionedMessage(
                        event.position,
                        encode_published(event),
                        event.aggregate_id,
                        None if trace is None else Envelope(traceparent=trace),
                    )
                    sender.send(_topic(event.aggregate_type), lane, message)
                    if trace is not None and len(report.traces) < TRACES_MAX and is_sampled(trace):
                        report.traces.append(trace)
                report.position = max(report.position, event.position)
                recent.append((event.position, event.event_id))
            sender.flush()
        except (WriterFenced, LaneBehind) as refused:
            report.refusal = Refusal(isinstance(refused, WriterFenced), str(refused))
        finally:
            server.close()
        report.appended, report.skipped = sender.appended, sender.skipped
        report.topics, report.recent = sender.moved, list(recent)
        return report


class LaneSender:
    """Sends to any topics and lanes, each in the order given. Everything sent is confirmed after `flush`."""

    def __init__(
        self,
        server: Server,
        *,
        writer: str,
        epoch: int | None,
        chunk: int,
        confirmed: Mapping[str, Mapping[int, int]] | None = None,
        partitions: int | None = None,
    ) -> None:
        """`confirmed` are the confirmed positions of topics. With `partitions`, a missing topic is created.

        Without an `epoch` the writer opens a new one on each topic, which fences its older runs there.
        """
        self._server = server
        self._writer = writer
        self._epoch = epoch
        self._chunk = chunk
        self._confirmed = confirmed or {}
        self._partitions = partitions
        self._epochs: dict[str, int] = {}
        self._waiting: dict[tuple[str, int], list[PositionedMessage]] = {}
        self._bytes: dict[tuple[str, int], int] = {}
        self.appended = 0
        self.skipped = 0
        self.moved: dict[str, dict[int, int]] = {}
        """Of each topic and lane the last position that was confirmed here."""

    def send(self, topic: str, lane: int, message: PositionedMessage) -> None:
        """Take a message; a full chunk goes out at once."""
        topic_lane = (topic, lane)
        waiting = self._waiting.setdefault(topic_lane, [])
        size = self._bytes.get(topic_lane, 0) + len(message.key) + len(message.value)
        if waiting and size > CHUNK_BYTES:
            self._flush(topic_lane)
            waiting, size = self._waiting[topic_lane], len(message.key) + len(message.value)
        waiting.append(message)
        self._bytes[topic_lane] = size
        if len(waiting) >= self._chunk:
            self._flush(topic_lane)

    def flush(self) -> None:
        for topic_lane in list(self._waiting):
            self._flush(topic_lane)

    def _flush(self, topic_lane: tuple[str, int]) -> None:
        messages, self._waiting[topic_lane], self._bytes[topic_lane] = self._waiting[topic_lane], [], 0
        if messages:
            self._append(*topic_lane, messages)

    def _append(self, topic: str, lane: int, messages: list[PositionedMessage]) -> None:
        try:
            receipt = self._ask(topic, lane, messages)
        except TopicNotFound:
            if self._partitions is None:
                raise
            self._create(topic, self._partitions)
            receipt = self._ask(topic, lane, messages)
        except Overloaded:  # Readers stayed behind for the whole wait. Fewer at a time may fit.
            half = len(messages) // 2
            if not half:
                raise
            self._append(topic, lane, messages[:half])
            self._append(topic, lane, messages[half:])
            return
        self.appended += receipt.appended
        self.skipped += receipt.skipped
        self.moved.setdefault(topic, {})[lane] = receipt.position

    def _ask(self, topic: str, lane: int, messages: list[PositionedMessage]) -> AppendReceipt:
        epoch = self._begin(topic) if self._epoch is None else self._epoch
        body = {"writer": self._writer, "lane": lane, "epoch": epoch, "messages": messages}
        certain = self.moved.get(topic, {}).get(lane, self._confirmed.get(topic, {}).get(lane))
        if certain is not None:
            body["after"] = certain
        return self._server.post(topic_path(topic, "/append"), body, AppendReceipt)

    def _begin(self, topic: str) -> int:
        if topic not in self._epochs:
            opened = self._server.post(topic_path(topic, "/writers"), {"writer": self._writer}, OpenWriter)
            self._epochs[topic] = opened.epoch
        return self._epochs[topic]

    def _create(self, topic: str, partitions: int) -> None:
        try:
            self._server.post("/v1/topics", {"name": topic, "partitions": partitions}, object)
        except TopicExists:
            return  # Created by another writer meanwhile, in another size: it is used as it is.


_topic = cache(topic_of)
