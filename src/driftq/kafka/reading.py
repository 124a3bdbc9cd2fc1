"""Reading one partition up to an offset: what is committed, in order, and nothing of an open transaction.

Offsets have gaps: marks of transactions, aborted messages and compaction leave them. So a read ends where the
consumer has come to, at a message behind the end or at the partition's own end, and never by a count.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

from driftq.errors import KafkaOffsetGone, KafkaUnavailable
from driftq.kafka.clients import Complaints, open_consumer
from driftq.kafka.translation import translate, translated
from driftq.model.options.kafka import KafkaOptions

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

_MESSAGES = 1_000
_POLL_S = 0.05
"""A list that is not full waits so long for more: at the end of each read, where there are gaps."""


class PartitionReader:
    """One consumer, for one read after the other. Raises our errors.

    With `strict` it raises KafkaOffsetGone where the next offset is not kept, or not there yet. Else it goes
    on with the oldest message.
    """

    def __init__(self, options: KafkaOptions, *, patience_s: float = 30.0, strict: bool = False) -> None:
        self._options = options
        self._patience_s = patience_s
        self._complaints = Complaints()
        self._consumer = open_consumer(options, self._complaints, strict=strict)

    def read(self, topic: str, partition: int, *, start: int, end: int) -> Iterator[Message]:
        """The committed messages from offset `start` up to, without, `end`.

        A transaction that is still open before `end` is waited for: its messages count if it commits. Raises
        KafkaUnavailable when it stays open, or when Kafka does not answer.
        """
        return chain.from_iterable(self.read_lists(topic, partition, start=start, end=end))

    def read_lists(self, topic: str, partition: int, *, start: int, end: int) -> Iterator[list[Message]]:
        """The same messages in lists, as they arrive."""
        from confluent_kafka import TopicPartition

        with translated(self._options, self._complaints, topic=topic):
            if start < end:
                self._consumer.assign([TopicPartition(topic, partition, start)])
            at = start
            until = time.monotonic() + self._patience_s
            while at < end:
                arrived = self._consumer.consume(min(_MESSAGES, end - at), _POLL_S)
                found: list[Message] = []
                for message in arrived:
                    offset, error = message.offset(), message.error()
                    if error is not None:
                        self._check(error, topic, partition, at=at)
                        if offset is not None:  # The partition's end, behind the marks of transactions.
                            at = max(at, offset)
                        continue
                    assert offset is not None  # Only a message of a producer has none.
                    at = offset + 1
                    if at <= end:
                        found.append(message)
                if found:
                    yield found
                if arrived:
                    until = time.monotonic() + self._patience_s
                elif time.monotonic() > until:
                    self._give_up(topic, partition, end)

    def close(self) -> None:
        self._consumer.close()

    def _check(self, error: KafkaError, topic: str, partition: int, *, at: int) -> None:
        """Raise what the error means, if it is more than the end of the partition.

        The client looks for the coordinator of its group by itself, and may not be allowed to. It needs none.
        """
        from confluent_kafka import KafkaError as Code

        if error.code() == Code._AUTO_OFFSET_RESET:
            raise KafkaOffsetGone(topic, partition=partition, wanted=at)
        if error.code() not in (Code._PARTITION_EOF, Code.GROUP_AUTHORIZATION_FAILED):
            raise translate(self._options, error, complaints=self._complaints, topic=topic)

    def _give_up(self, topic: str, partition: int, end: int) -> None:
        last = self._complaints.last()
        cause = f"partition {partition} of {topic} could not be read up to {end}"
        reason = "a transaction stays open" if last is None else self._options.clean(last.str())
        raise KafkaUnavailable(str(self._options.bootstrap), cause=f"{cause}: {reason}")
