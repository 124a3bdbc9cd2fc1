"""Reading one partition up to an offset: what is committed, in order, and nothing of an open transaction."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from driftq.errors import KafkaUnavailable
from driftq.kafka.clients import Complaints, open_consumer
from driftq.kafka.translation import translate, translated
from driftq.model.options.kafka import KafkaOptions

if TYPE_CHECKING:
    from confluent_kafka import Message

_MESSAGES = 1_000
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
        from confluent_kafka import KafkaError, TopicPartition

        if start >= end:
            return
        with translated(self._options, self._complaints, topic=topic):
            self._consumer.assign([TopicPartition(topic, partition, start)])
            until = time.monotonic() + self._patience_s
            while True:
                for message in self._consumer.consume(_MESSAGES, _POLL_S):
                    until = time.monotonic() + self._patience_s
                    offset = message.offset()
                    assert offset is not None  # Only a message of a producer has none.
                    error = message.error()
                    if error is None and offset < end:
                        yield message
                    if error is None and offset >= end - 1:
                        return
                    if error is not None and error.code() != KafkaError._PARTITION_EOF:
                        raise translate(self._options, error, complaints=self._complaints, topic=topic)
                    if error is not None and offset >= end:
                        return  # The rest are the marks of transactions.
                if time.monotonic() > until:
                    self._give_up(topic, partition, end)

    def close(self) -> None:
        self._consumer.close()

    def _give_up(self, topic: str, partition: int, end: int) -> None:
        last = self._complaints.last()
        cause = f"partition {partition} of {topic} could not be read up to {end}"
        reason = "a transaction stays open" if last is None else self._options.clean(last.str())
        raise KafkaUnavailable(str(self._options.bootstrap), cause=f"{cause}: {reason}")
