"""The port to dead-letter topics: publishing handlers' dead letters to a transport, and reading them back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from driftq.model.dead_letter import HandlerDeadLetter


class DeadLetterCount(NamedTuple):
    """A topic with dead letters of handlers; those with equal ids count once."""

    topic: str
    dead_letters: int
    oldest_at: int


class TopicDeadLetter(NamedTuple):
    """A handler's dead letter and its place in `dlq.<topic>`."""

    partition: int
    offset: int
    dead_letter: HandlerDeadLetter


class DeadLetterTopics(Protocol):
    """The dead-letter topics of one transport. Methods raise an Unavailable when it is unreachable."""

    def publish(self, dead_letters: Sequence[HandlerDeadLetter]) -> list[str | None]:
        """Store them durably; a repeat may be stored twice, and lists show it once.

        For each, in order, why the transport will not take it, or None when it is stored.
        """

    def topics(self) -> list[DeadLetterCount]:
        """The topics that have dead letters of handlers, by name."""

    def read(self, topic: str) -> Iterator[TopicDeadLetter]:
        """All dead letters of handlers that a topic has, in the order of their partitions and offsets."""

    def close(self) -> None: ...
