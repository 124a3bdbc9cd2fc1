"""Rows and batches as the tests name them, and what they read back."""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence

from driftq.sinks import (
    Application,
    AttemptReport,
    Change,
    OutOfOrderEvent,
    ProjectionDeadLetter,
    ReadModel,
    StagedBatch,
    StagedCommit,
    TaskWriter,
    TopicPartition,
)
from driftq.sinks.arrow_rows import CHANGES, as_table

ORDERS = TopicPartition("events.order", 0)


def change(sequence: int, *, of: str = "o-1", kind: str = "order", deleted: bool = False) -> Change:
    """The state says which sequence it is from."""
    state = None if deleted else json.dumps({"at": sequence})
    return Change(kind, of, sequence, f"{kind}/{of}/{sequence}", state)


def batch(
    *changes: Change, upto: int | None = None, dead: tuple[ProjectionDeadLetter, ...] = ()
) -> Application:
    positions = {} if upto is None else {ORDERS: upto}
    return Application(changes=changes, positions=positions, dead_letters=dead)


def dead_letter(offset: int, *, error: str = "no JSON", value: str | None = "{") -> ProjectionDeadLetter:
    return ProjectionDeadLetter("events.order", 0, offset, None, "decode", error, value)


def out_of_order(sequence: int, *, of: str = "o-1", offset: int | None = None) -> OutOfOrderEvent:
    at = sequence if offset is None else offset
    return OutOfOrderEvent("order", of, sequence, f"e-{sequence}", "{}", "t", 0, at)


def seen(model: ReadModel) -> dict[tuple[str, str], tuple[int, object]]:
    return {(row.aggregate_type, row.aggregate_id): (row.sequence_number, row.state) for row in model.rows()}


def sequences(model: ReadModel) -> dict[str, int]:
    """The sequence of each visible row, by id."""
    return {row.aggregate_id: row.sequence_number for row in model.rows()}


def settled(model: ReadModel) -> dict[tuple[str, str], tuple[int, str]]:
    return {
        (row.aggregate_type, row.aggregate_id): (row.last_sequence, row.last_event_id)
        for row in model.registry()
    }


def write(
    staged: StagedBatch,
    *changes: Change,
    task: int = 0,
    attempt: int = 100,
    waiting: Sequence[OutOfOrderEvent] = (),
    dead: Sequence[ProjectionDeadLetter] = (),
) -> AttemptReport:
    """As a task does: with a writer that has travelled."""
    travelled: TaskWriter = pickle.loads(pickle.dumps(staged.writer))
    return write_here(travelled, *changes, task=task, attempt=attempt, waiting=waiting, dead=dead)


def write_here(
    writer: TaskWriter,
    *changes: Change,
    task: int = 0,
    attempt: int = 100,
    waiting: Sequence[OutOfOrderEvent] = (),
    dead: Sequence[ProjectionDeadLetter] = (),
) -> AttemptReport:
    """One attempt, from its first row to its report."""
    begun = writer.begin(task=task, attempt=attempt)
    try:
        begun.write_waiting(waiting)
        begun.write_dead_letters(dead)
        begun.write_changes(as_table(changes, CHANGES))
        return begun.finish()
    finally:
        begun.close()


def commit(staged: StagedBatch, *reports: AttemptReport, upto: int = 0) -> None:
    staged.commit(StagedCommit(reports=reports, positions={ORDERS: upto}))
