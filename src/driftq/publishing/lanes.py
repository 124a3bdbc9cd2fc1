"""Events of lanes, appended to their DriftQ topics in log order.

What is sent twice is sent with the same positions, and the topic skips it.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import msgspec

from driftq.errors import LaneBehind, WriterFenced
from driftq.eventstore.published import encode_published, topic_of, trace_of
from driftq.eventstore.stored import StoredEvent
from driftq.model import Envelope
from driftq.model.options.credentials import NO_CREDENTIALS, Credentials
from driftq.model.wire.append import PositionedMessage
from driftq.publishing.lane_sender import LaneSender
from driftq.telemetry.tracing import is_sampled
from driftq.transport.server import Server

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


_topic = cache(topic_of)
