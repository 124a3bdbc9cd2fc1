"""The port to a read model: applying batches, fencing their writers, and reading rows back.

A read model keeps the newest row of each aggregate, with the sequence and the id of the event it came from.
That row is the aggregate's entry in the event registry as well: an event whose sequence is not above it was
applied or superseded. A deleted aggregate leaves a tombstone, so that a late older event does not restore it.
Beside the rows, the read model stores the applied offset of each partition.

There are two ways to write one. `ReadModel.apply` takes a batch that fits in memory. A `StagedReadModel` is
written from Spark's tasks: the driver opens a batch, each attempt of a task stages its rows by itself and
reports how many there are, and the driver commits what the reports name. No row passes through the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from driftq.model import Aggregate

if TYPE_CHECKING:
    import pyarrow as pa


class TopicPartition(NamedTuple):
    """A partition of a topic.

    `identity` names the transport, the cluster and the topic's id. An offset belongs to one identity: a topic
    that was created again, or that is on another transport, has offsets of its own under the same name. It is
    empty in positions that an earlier version stored.
    """

    topic: str
    partition: int
    identity: str = ""


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
    identity: str = ""
    """Of the topic, as in `TopicPartition`."""
    attempts: int = 1
    key: str = ""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a target can do; a projection that needs more is refused when it starts."""

    atomic: bool = False
    """Whether readers see a batch as a whole."""
    ordered: bool = True
    """Whether it can serve ordered folds: what a task reads is what was last stored, at once."""


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


@runtime_checkable
class GuardedReadModel(ReadModel, Protocol):
    """A read model that takes single rows, from any number of writers and beside a running projection.

    Threads pass it on, and no two of them use it at once.
    """

    def put(self, changes: Sequence[Change]) -> None:
        """Store each change whose sequence is above that of its row; others count as stored.

        At most one change for each aggregate. Raises ReadModelNotFound where nothing was ever taken over, and
        what the target raises for a row that it refuses.
        """


class ReadModelSink(Protocol):
    """The target of read models. Plain values: it travels to Spark and back."""

    @property
    def capabilities(self) -> Capabilities: ...

    def connect(self, projection: str) -> ReadModel:
        """Raises InvalidArgument for an invalid name, and an Unavailable when the target is unreachable."""


@runtime_checkable
class FindsReadModels(Protocol):
    """A sink whose `connect` may create something: readers use this instead."""

    def find(self, projection: str) -> ReadModel:
        """As `connect`, but nothing is created; raises ReadModelNotFound."""


@runtime_checkable
class TakesS3Endpoint(Protocol):
    """A sink in object storage."""

    def with_s3_endpoint(self, endpoint: str | None) -> ReadModelSink:
        """The same sink at this server, unless it names one itself."""


class AttemptReport(NamedTuple):
    """How much one attempt of a task has staged. Of several attempts of a task Spark names one."""

    task: int
    attempt: int
    """Unique in the batch, also between tasks."""
    changes: int = 0
    waiting: int = 0
    dead_letters: int = 0
    detail: bytes = b""
    """For the sink's own use: whatever its `commit` needs to find the rows."""


class RefusedChange(NamedTuple):
    """A change that the target cannot store."""

    change: Change
    error: str


FindDeadLetters = Callable[[Sequence[RefusedChange]], Iterable[ProjectionDeadLetter]]
"""The messages of changes that the target refuses, as dead letters."""


PublishDeadLetters = Callable[[Sequence[ProjectionDeadLetter]], None]
"""Returns when their topic has them; raises an Unavailable otherwise. They may be published again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedCommit:
    """What makes a staged batch count. All of it is stored, or nothing."""

    reports: Sequence[AttemptReport]
    """Rows of other attempts are left out: they are repeats, or their task failed."""
    positions: Mapping[TopicPartition, int] = field(default_factory=dict)
    dead_letters: Sequence[ProjectionDeadLetter] = ()
    """Those of the driver, beside the staged ones."""
    publish_dead_letters: PublishDeadLetters | None = None
    """Gets the staged ones a page at a time, before anything counts, where the read model has no outbox."""
    find_dead_letters: FindDeadLetters | None = None
    """With it, changes that the target refuses become dead letters; without it, the commit fails."""


class AttemptWriter(Protocol):
    """One attempt of a task at its part of a batch. Raises an Unavailable when the target is unreachable."""

    def current(self, aggregates: Sequence[Aggregate]) -> dict[Aggregate, Change]:
        """As `ReadModel.current`."""

    def waiting(self, aggregates: Sequence[Aggregate]) -> list[OutOfOrderEvent]:
        """As `ReadModel.waiting`."""

    def write_changes(self, changes: pa.Table) -> None:
        """Rows with the columns of `arrow_rows.CHANGES`. An aggregate may have several, in any task.

        Called after the waiting events and dead letters that the rows have passed: a target without
        transactions shows rows at once, also those of an attempt that never finishes.
        """

    def write_waiting(self, events: Sequence[OutOfOrderEvent]) -> None: ...

    def write_dead_letters(self, dead_letters: Sequence[ProjectionDeadLetter]) -> None: ...

    def finish(self) -> AttemptReport:
        """Called once, after the last row: all of them are stored when it returns."""

    def close(self) -> None:
        """Called in any case; the rows of an attempt that has not finished may stay or go."""


class TaskWriter(Protocol):
    """Begins attempts. Plain values: it travels to Spark's tasks."""

    def begin(self, *, task: int, attempt: int) -> AttemptWriter: ...


class StagedBatch(Protocol):
    """A batch that tasks write and the driver commits."""

    @property
    def writer(self) -> TaskWriter: ...

    def commit(self, commit: StagedCommit) -> None:
        """Apply the rows that the reports name, once, under the same guard as `ReadModel.apply`.

        Raises ProjectionFenced or ReadModelSwapped when the writer epoch is no longer current, and an
        Unavailable when the target is unreachable or no longer holds the rows: then the batch has to be
        staged again. After any other error it may be called again.
        """


@runtime_checkable
class StagedReadModel(ReadModel, Protocol):
    """A read model that tasks can write. Rows of a batch without a commit are never visible."""

    def open_batch(self, writer_epoch: WriterEpoch) -> StagedBatch:
        """Prepare staging, and drop what earlier batches left; the next `take_over` drops it otherwise.

        Raises ProjectionFenced or ReadModelSwapped when the writer epoch is no longer current.
        """
