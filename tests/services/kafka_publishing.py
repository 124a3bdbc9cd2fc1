"""Events, a publisher to Kafka over them, and what a reader of committed messages then finds."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from driftq.eventstore.published import PublishedEvent, decode_published, topic_of
from driftq.kafka.cluster import KafkaCluster
from driftq.kafka.reading import PartitionReader
from driftq.model.options.kafka import KafkaOptions
from driftq.model.options.pipeline import KAFKA, PipelineOptions
from tests.harness import ServerProcess
from tests.spark.publishing import options_for


@dataclass(frozen=True)
class KafkaMessage:
    """One message as a reader finds it."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes
    headers: dict[str, str]
    timestamp_ms: int
    offset: int

    @property
    def event(self) -> PublishedEvent:
        return decode_published(self.value)


@dataclass(frozen=True)
class EventSource:
    """A server whose events have aggregate types, and so topics, that no other test uses."""

    server: ServerProcess
    kinds: tuple[str, ...]

    @classmethod
    def beside(cls, server: ServerProcess, *, kinds: int = 2) -> EventSource:
        return cls(server, tuple(f"kind{number}-{uuid.uuid4().hex[:8]}" for number in range(kinds)))

    @property
    def topics(self) -> list[str]:
        return [topic_of(kind) for kind in self.kinds]

    def options(self, kafka: KafkaOptions, **publisher: Any) -> PipelineOptions:
        """What a pipeline beside this server is told; keywords are settings of the publisher."""
        patient = {"flush_timeout_seconds": 60, **publisher}
        return replace(options_for(self.server, **patient), transport=KAFKA, kafka=kafka)

    def append(self, count: int, *, first: int = 1, aggregates: int = 7, payload: Any = None) -> None:
        """Events of a few aggregates, each with its own id."""
        client = self.server.client()
        for start in range(first, first + count, 500):
            events = [
                {
                    "event_id": f"e{number}",
                    "aggregate_type": self.kinds[number % len(self.kinds)],
                    "aggregate_id": f"a{number % aggregates}",
                    "event_type": "Changed",
                    "kind": "event",
                    "operation": "append",
                    "payload": {"n": number} if payload is None else payload,
                }
                for number in range(start, min(start + 500, first + count))
            ]
            answer = client.post("/v1/events", events)
            assert answer.status in (200, 201), answer
            assert answer.body["failed"] == 0


def messages(kafka: KafkaOptions, topics: Iterable[str]) -> list[KafkaMessage]:
    """Everything that is committed on these topics, partition by partition in the order of its offsets."""
    found: list[KafkaMessage] = []
    reader = PartitionReader(kafka, patience_s=90)
    with KafkaCluster(kafka) as cluster:
        there = cluster.topic_ids(topics)
        for (topic, partition), end in sorted(cluster.end_offsets(there, committed=False).items()):
            for message in reader.read(topic, partition, start=0, end=end):
                headers = {name: bytes(value).decode() for name, value in cast(Any, message.headers() or [])}
                found.append(
                    KafkaMessage(
                        topic,
                        partition,
                        message.key(),
                        message.value() or b"",
                        headers,
                        timestamp_ms=message.timestamp()[1],
                        offset=message.offset() or 0,
                    )
                )
    reader.close()
    return found


def arrived(kafka: KafkaOptions, source: EventSource) -> list[PublishedEvent]:
    """The events on the topics, each with the key and the headers that it must have."""
    found = messages(kafka, source.topics)
    for message in found:
        event = message.event
        assert message.key == event.aggregate_id.encode()
        assert message.headers == {
            "event_id": event.event_id,
            "aggregate_type": event.aggregate_type,
            "aggregate_id": event.aggregate_id,
            "sequence_number": str(event.sequence_number),
            "position": str(event.position),
            "content-type": "application/json",
        }
        assert message.topic == topic_of(event.aggregate_type)
    return [message.event for message in found]


def copies(events: Sequence[PublishedEvent]) -> dict[int, int]:
    """How many events are there how often."""
    return dict(Counter(Counter(event.event_id for event in events).values()))
