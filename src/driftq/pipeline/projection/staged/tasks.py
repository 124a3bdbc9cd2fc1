"""What runs in Spark's tasks: messages or rows in, rows staged in the target, one report out.

These are callables for `mapInArrow`. An unreachable target is reported, not raised: Spark would repeat the
task at once, and the driver waits out an outage. Any other error fails the attempt, and Spark repeats the
task; what the attempt has staged is named by no report.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from driftq.errors import Unavailable
from driftq.model import Aggregate
from driftq.pipeline.dead_letters.projection import DeadLetterContext
from driftq.pipeline.projection.delivery import RetryBudget
from driftq.pipeline.projection.folds import Ordered, fold_latest, fold_ordered
from driftq.pipeline.projection.staged.latest_rows import fold_rows, messages
from driftq.pipeline.projection.staged.reports import ReadUpTo, TaskReport, as_rows, read_up_to
from driftq.pipeline.spark.garbage import collecting_nothing
from driftq.sinks.arrow_rows import CHANGES, as_table

if TYPE_CHECKING:
    from driftq.sinks import AttemptWriter, TaskWriter

HELD_BYTES = 64 << 20
"""Of messages, until a task folds and writes them."""


@dataclass(frozen=True, slots=True)
class FoldLatest:
    """Messages of any order: the newest of each aggregate that this task has seen."""

    writer: TaskWriter
    context: DeadLetterContext
    keyed: bool

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _run(self.writer, batches, self._write)

    def _write(self, attempt: AttemptWriter, batches: Iterable[pa.RecordBatch]) -> tuple[ReadUpTo, ...]:
        read: list[ReadUpTo] = []
        for table in _chunks(batches):
            changes, dead_letters = fold_rows(table, keyed=self.keyed)
            attempt.write_dead_letters(list(map(self.context.complete, dead_letters)))
            attempt.write_changes(changes)
            read += read_up_to(table)
        return tuple(read)


@dataclass(frozen=True, slots=True)
class FoldOrdered:
    """All messages of some aggregates: each is folded on from its row and its waiting events."""

    writer: TaskWriter
    context: DeadLetterContext
    fold: Ordered
    retry_budget: RetryBudget

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _run(self.writer, batches, self._write)

    def _write(self, attempt: AttemptWriter, batches: Iterable[pa.RecordBatch]) -> tuple[ReadUpTo, ...]:
        held = list(batches)
        if not held:
            return ()
        table = pa.Table.from_batches(held)
        arrived = list(messages(table))
        aggregates = list(
            {
                Aggregate(each.aggregate_type, each.aggregate_id)
                for each in arrived
                if each.aggregate_type is not None and each.aggregate_id is not None
            }
        )
        folded = fold_ordered(
            arrived,
            current=attempt.current(aggregates) if aggregates else {},
            waiting=attempt.waiting(aggregates) if aggregates else [],
            step=self.fold.step,
            retries=self.retry_budget.retries,
            pause=self.retry_budget.pause,
        )
        # The rows come last: they are past what waits and what failed.
        attempt.write_waiting(folded.waiting)
        attempt.write_dead_letters(list(map(self.context.complete, folded.dead_letters)))
        attempt.write_changes(as_table(folded.changes, CHANGES))
        return read_up_to(table)


@dataclass(frozen=True, slots=True)
class WriteRows:
    """Rows that a user's fold has made."""

    writer: TaskWriter

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _run(self.writer, batches, self._write)

    def _write(self, attempt: AttemptWriter, batches: Iterable[pa.RecordBatch]) -> tuple[ReadUpTo, ...]:
        for table in _chunks(batches):
            attempt.write_changes(table)
        return ()


@dataclass(frozen=True, slots=True)
class SetAside:
    """Messages that are no events: they become dead letters."""

    writer: TaskWriter
    context: DeadLetterContext

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _run(self.writer, batches, self._write)

    def _write(self, attempt: AttemptWriter, batches: Iterable[pa.RecordBatch]) -> tuple[ReadUpTo, ...]:
        for table in _chunks(batches):
            found = fold_latest(messages(table)).dead_letters
            attempt.write_dead_letters(list(map(self.context.complete, found)))
        return ()


Write = Callable[["AttemptWriter", Iterable[pa.RecordBatch]], tuple[ReadUpTo, ...]]
"""Writes the rows of a task, and returns how far it has read."""


def _run(writer: TaskWriter, batches: Iterable[pa.RecordBatch], write: Write) -> Iterator[pa.RecordBatch]:
    """One attempt, from its first row to its report."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    attempt = writer.begin(task=context.partitionId(), attempt=context.taskAttemptId())
    rows = iter(batches)
    try:
        with collecting_nothing():
            read = write(attempt, rows)
        report = TaskReport(read=read, attempt=attempt.finish())
    except Unavailable as away:
        for _ in rows:
            pass  # Spark's side of the pipe must not be cut off.
        report = TaskReport(unavailable=str(getattr(away, "cause", away)))
    finally:
        attempt.close()
    return as_rows(report)


def _chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The rows in tables of bounded size."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        held.append(batch)
        size += batch.nbytes
        if size >= HELD_BYTES:
            yield pa.Table.from_batches(held)
            held, size = [], 0
    if held:
        yield pa.Table.from_batches(held)
