"""The port to a read model: applying batches, fencing their writers, and reading rows back.

A read model keeps the newest row of each aggregate, with the sequence and the id of the event it came from.
That row is the aggregate's entry in the event registry as well: an event whose sequence is not above it was
applied or superseded. A deleted aggregate leaves a tombstone, so that a late older event does not restore it.
Beside the rows, the read model stores the applied offset of each partition.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from driftq.model import Aggregate


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int


class Change(NamedTuple):
    """An aggregate's newest row. `state` is JSON; None is a tombstone."""

    aggregate_type: str
    aggregate_id: str
    sequence_number: int
    event_id: str
    state: str | None


class OutOfOrderEvent(NamedTuple):
    """An event that arrived before an earlier one of its aggregate: its text and its offset."""

    aggregate_type: str
    aggregate_id: str
    sequence_number: int
    event_id: str
    value: str
    topic: str
    partition: int
    message_offset: int


class ProjectionDeadLetter(NamedTuple):
    """An event that a projection cannot apply: where it is, at which stage it failed, and why."""

    topic: str
    partition: int
    offset: int
    event_id: str | None
    stage: str
    error: str
    value: str | None


class ReadModelRow(NamedTuple):
    """A row of the read model, for readers."""

    aggregate_type: str
    aggregate_id: str
    sequence_number: int
    state: Any


class RegistryRow(NamedTuple):
    """The last sequence of an aggregate, deleted ones too: every event up to it is settled."""

    aggregate_type: str
    aggregate_id: str
    last_sequence: int
    last_event_id: str


@dataclass(frozen=True, slots=True)
class WriterEpoch:
    """One run's right to write a read model, until the next one takes over or a rebuild takes its place."""

    epoch: int
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """The changes of one batch to a read model. All of them are stored, or none.

    At most one change for each aggregate. `waiting` is kept until the aggregate's row reaches it.
    """

    changes: Sequence[Change] = ()
    positions: Mapping[TopicPartition, int] = field(default_factory=dict)
    """The last offset of each partition that is settled with this."""
    dead_letters: Sequence[ProjectionDeadLetter] = ()
    waiting: Sequence[OutOfOrderEvent] = ()


class ReadModel(Protocol):
    """The rows of one projection in one target. Raises an Unavailable when the target is unreachable."""

    @property
    def name(self) -> str: ...

    @property
    def address(self) -> str:
        """Its address for display, without a password."""

    def take_over(self) -> WriterEpoch:
        """Create what is missing, and fence every earlier run."""

    def apply(self, application: Application, writer_epoch: WriterEpoch) -> None:
        """Settle one batch; repeated changes have no effect.

        Raises ProjectionFenced or ReadModelSwapped when the writer epoch is no longer current.
        """

    def positions(self) -> dict[TopicPartition, int]:
        """The last settled offset of each partition; empty where nothing was ever applied."""

    def current(self, aggregates: Sequence[Aggregate]) -> dict[Aggregate, Change]:
        """The rows of these aggregates, tombstones too."""

    def waiting(self, aggregates: Sequence[Aggregate]) -> list[OutOfOrderEvent]:
        """The events of these aggregates that wait for an earlier one, in order."""

    def rows(self) -> Iterator[ReadModelRow]:
        """Every row that is not deleted, by type and id; raises ReadModelNotFound."""

    def registry(self) -> Iterator[RegistryRow]:
        """The last sequence of every aggregate, by type and id."""

    def dead_letters(self) -> Iterator[ProjectionDeadLetter]:
        """The dead letters, by topic, partition and offset."""

    def beside(self) -> ReadModel:
        """A second one without readers; its first `take_over` empties it."""

    def swap(self, beside: WriterEpoch) -> None:
        """Replace this one by the one beside it, with its positions; readers see one or the other."""

    def close(self) -> None: ...


class ReadModelSink(Protocol):
    """The target of read models. Plain values: it travels to Spark and back."""

    def connect(self, projection: str) -> ReadModel:
        """Raises InvalidArgument for an invalid name, and an Unavailable when the target is unreachable."""
