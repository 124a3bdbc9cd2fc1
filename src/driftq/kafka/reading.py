"""Reading one partition up to an offset: what is committed, in order, and nothing of an open transaction."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

from driftq.errors import KafkaUnavailable
from driftq.kafka.clients import Complaints, open_consumer
from driftq.kafka.translation import translate, translated
from driftq.model.options.kafka import KafkaOptions

if TYPE_CHECKING:
    from confluent_kafka import Message
    from confluent_kafka.cimpl import KafkaError

_MESSAGES = 10_000
_POLL_S = 0.2


class PartitionReader:
    """One consumer, for one read after the other. Raises our errors."""

    def __init__(self, options: KafkaOptions, *, patience_s: float = 30.0) -> None:
        self._options = options
        self._patience_s = patience_s
        self._complaints = Complaints()
        self._consumer = open_consumer(options, self._complaints)

    def read(self, topic: str, partition: int, *, start: int, end: int) -> Iterator[Message]:
        """The committed messages from offset `start` up to, without, `end`.

        A transaction that is still open before `end` is waited for: its messages count if it commits. Raises
        KafkaUnavailable when it stays open, or when Kafka does not answer.
        """
        return chain.from_iterable(self.read_together(topic, partition, start=start, end=end))

    def read_together(self, topic: str, partition: int, *, start: int, end: int) -> Iterator[list[Message]]:
        """The same, as many at a time as there are."""
        from confluent_kafka import TopicPartition

        if start >= end:
            return
        with translated(self._options, self._complaints, topic=topic):
            self._consumer.assign([TopicPartition(topic, partition, start)])
            until = time.monotonic() + self._patience_s
            while True:
                found = self._next()
                wanted, is_end = self._within(found, topic=topic, end=end)
                if wanted:
                    yield wanted
                if is_end:
                    return
                if found:
                    until = time.monotonic() + self._patience_s
                elif time.monotonic() > until:
                    self._give_up(topic, partition, end)

    def _next(self) -> list[Message]:
        """What has arrived; waits for the first one alone, because a full batch may never come."""
        first = self._consumer.poll(_POLL_S)
        return [] if first is None else [first, *self._consumer.consume(_MESSAGES - 1, 0)]

    def _within(self, found: list[Message], *, topic: str, end: int) -> tuple[list[Message], bool]:
        """The messages before `end`, and whether no other follows."""
        if found and not any(message.error() for message in found) and (found[-1].offset() or 0) < end - 1:
            return found, False
        wanted: list[Message] = []
        for message in found:
            offset = message.offset()
            assert offset is not None  # Only a message of a producer has none.
            error = message.error()
            if error is None and offset < end:
                wanted.append(message)
            if error is None and offset >= end - 1:
                return wanted, True
            if error is not None and self._ends(error, topic=topic) and offset >= end:
                return wanted, True  # The rest are the markers of transactions.
        return wanted, False

    def _ends(self, error: KafkaError, *, topic: str) -> bool:
        """Whether this is the end of the partition; another error is raised."""
        from confluent_kafka import KafkaError as Code

        if error.code() != Code._PARTITION_EOF:
            raise translate(self._options, error, complaints=self._complaints, topic=topic)
        return True

    def close(self) -> None:
        self._consumer.close()

    def _give_up(self, topic: str, partition: int, end: int) -> None:
        last = self._complaints.last()
        cause = f"partition {partition} of {topic} could not be read up to {end}"
        reason = "a transaction stays open" if last is None else self._options.clean(last.str())
        raise KafkaUnavailable(str(self._options.bootstrap), cause=f"{cause}: {reason}")
