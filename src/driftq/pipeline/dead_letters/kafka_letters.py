"""Dead-letter topics on Kafka: `dlq.<topic>`, created when the first dead letter comes, and kept for good.

The producer is idempotent, so its own repeats add nothing; a relay that was killed may add a second copy,
which has the same id. Readers see each id once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from driftq.errors import KafkaTopicNotFound, KafkaUnavailable
from driftq.kafka.clients import Complaints, open_producer, require_kafka
from driftq.kafka.cluster import KafkaCluster
from driftq.kafka.dead_letters import KEPT, dead_letter_headers, read_dead_letter
from driftq.kafka.reading import PartitionReader
from driftq.kafka.translation import translate, translated
from driftq.model.dead_letter import HandlerDeadLetter
from driftq.model.options.kafka import KafkaOptions
from driftq.model.topic import DEAD_LETTER_PREFIX
from driftq.pipeline.dead_letters.port import DeadLetterCount, TopicDeadLetter

if TYPE_CHECKING:
    from confluent_kafka import Message
    from confluent_kafka.cimpl import KafkaError

_BY_KEY = -1


class KafkaDeadLetters:
    """Implements `DeadLetterTopics`."""

    def __init__(self, options: KafkaOptions, *, patience_s: float = 30.0) -> None:
        require_kafka(options)
        self._options = options
        self._patience_s = max(patience_s, 5.0)
        """A first connection takes a moment, however little a relay wants to wait."""

    def publish(self, dead_letters: Sequence[HandlerDeadLetter]) -> list[str | None]:
        partitions = self._prepare({dead_letter.topic for dead_letter in dead_letters})
        refused = self._send(dead_letters, range(len(dead_letters)), partitions, omit_value=False)
        too_large = [slot for slot, error in refused.items() if _is_too_large(error)]
        if too_large:
            second = self._send(dead_letters, too_large, partitions, omit_value=True)
            refused = {slot: error for slot, error in refused.items() if slot not in too_large} | second
        return [
            self._options.clean(refused[slot].str()) if slot in refused else None
            for slot in range(len(dead_letters))
        ]

    def topics(self) -> list[DeadLetterCount]:
        with KafkaCluster(self._options, answer_s=self._patience_s) as cluster:
            names = [name for name in cluster.topics() if name.startswith(DEAD_LETTER_PREFIX)]
        found: list[DeadLetterCount] = []
        for name in names:
            topic = name.removeprefix(DEAD_LETTER_PREFIX)
            oldest = {each.dead_letter.id: each.dead_letter.at for each in self.read(topic)}
            if oldest:
                found.append(DeadLetterCount(topic, len(oldest), min(oldest.values())))
        return found

    def read(self, topic: str) -> Iterator[TopicDeadLetter]:
        name = DEAD_LETTER_PREFIX + topic
        with KafkaCluster(self._options, answer_s=self._patience_s) as cluster:
            try:
                starts, ends = cluster.beginning_offsets([name]), cluster.end_offsets([name])
            except KafkaTopicNotFound:
                return
        reader = PartitionReader(self._options, patience_s=self._patience_s)
        try:
            for place, end in sorted(ends.items()):
                for message in reader.read(name, place[1], start=starts[place], end=end):
                    found = read_dead_letter(message.key(), message.value(), message.headers())  # type: ignore[arg-type]
                    if found is not None:
                        yield TopicDeadLetter(place[1], message.offset() or 0, found)
        finally:
            reader.close()

    def close(self) -> None:
        """Nothing stays open."""

    def _prepare(self, topics: set[str]) -> dict[str, int]:
        """Create the dead-letter topics that are missing; the number of partitions of each."""
        with KafkaCluster(self._options, answer_s=self._patience_s) as cluster:
            known = cluster.topics()
            for topic in topics:
                name = DEAD_LETTER_PREFIX + topic
                if name not in known:
                    cluster.create_topic(name, partitions=known.get(topic), config=KEPT)
            return {topic: cluster.partitions(DEAD_LETTER_PREFIX + topic) for topic in topics}

    def _send(
        self,
        dead_letters: Sequence[HandlerDeadLetter],
        slots: Sequence[int],
        partitions: dict[str, int],
        *,
        omit_value: bool,
    ) -> dict[int, KafkaError]:
        """Those that Kafka refuses, by slot. Raises KafkaUnavailable, and then any of them may be stored."""
        refused: dict[int, KafkaError] = {}

        def note(slot: int, error: KafkaError | None, _: Message) -> None:
            if error is not None:
                refused[slot] = error

        complaints = Complaints()
        timeout_ms = int(self._patience_s * 1000)
        producer = open_producer(self._options, complaints, message_timeout_ms=timeout_ms, linger_ms=0)
        with translated(self._options, complaints):
            for slot in slots:
                dead = dead_letters[slot]
                count = partitions[dead.topic]
                producer.produce(
                    DEAD_LETTER_PREFIX + dead.topic,
                    key=dead.key.encode() or None,
                    value=None if omit_value or dead.value is None else dead.value.encode(),
                    partition=dead.partition % count if dead.partition >= 0 else _BY_KEY,
                    headers=dead_letter_headers(dead, value_omitted=omit_value),  # type: ignore[arg-type]
                    on_delivery=partial(note, slot),
                )
            left = producer.flush(self._patience_s + 1)
        for error in refused.values():
            our = translate(self._options, error, complaints=complaints)
            if isinstance(our, KafkaUnavailable):
                raise our
        if left:
            cause = f"{left} dead letters are not confirmed after {self._patience_s:g} s"
            raise KafkaUnavailable(str(self._options.bootstrap), cause=cause)
        return refused


def _is_too_large(error: KafkaError) -> bool:
    from confluent_kafka import KafkaError as Code

    return error.code() in (Code.MSG_SIZE_TOO_LARGE, Code.RECORD_LIST_TOO_LARGE)
