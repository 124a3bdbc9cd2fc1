"""Batches that Spark's tasks stage in PostgreSQL, and the one transaction that makes each of them count.

The staging tables are unlogged: writing them costs no journal, and a crash of the database empties them. So
the transaction first compares the staged rows with the reports of the tasks; a batch whose rows are gone is
staged again. The tables are registered in `driftq_stages` in the transaction that creates them, so that no
leftover is unknown.

The first rows of a read model are staged in a table with a journal, and where possible that table takes the
place of the read model's empty one: tasks have written it side by side, and nobody writes the rows again.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import exc

from driftq.errors import DatabaseBusy, ReadModelUnavailable
from driftq.sinks.port import (
    AttemptReport,
    Change,
    FindDeadLetters,
    RefusedChange,
    StagedCommit,
    WriterEpoch,
)
from driftq.sinks.postgres_tasks import REFUSES, PostgresTarget, PostgresTaskWriter
from driftq.sinks.sql_queries import staged_rows_table, staging_queries
from driftq.sql import Database, Transaction

if TYPE_CHECKING:
    from driftq.sinks.sql_model import SqlReadModel

_NO_STAGE = ""
_AT_ONCE = 1_000
"""Refused rows in the driver's memory."""
_LOCK_TIMEOUT = "55P03"
_NOT_POSSIBLE = (_LOCK_TIMEOUT, "23", "2B", "42", "54")
"""SQLSTATE where staged rows cannot take the place of a table: locked, doubled keys, others depend on it."""
_TAKE_PLACE = ("drop_tag", "add_first_key", "move_view", "drop_empty", "take_place")


class StagedChanges(NamedTuple):
    """What the tasks of a batch have staged."""

    has_key: bool
    """Whether the read model's table has one: it is added with the first rows."""
    is_refused: bool
    """Whether COPY refused a part."""
    is_distinct: bool
    """Whether the rows of the others are certainly of as many aggregates."""


class PostgresBatch:
    """One batch: its staging tables, and the right to commit it."""

    def __init__(
        self, model: SqlReadModel, target: PostgresTarget, writer_epoch: WriterEpoch, *, stage: str
    ) -> None:
        self._model = model
        self._writer_epoch = writer_epoch
        self._stage = stage
        self._queries = staging_queries(model.name, stage, model.database.renderer)
        self.writer = PostgresTaskWriter(target, stage)

    @classmethod
    def open(cls, model: SqlReadModel, target: PostgresTarget, writer_epoch: WriterEpoch) -> PostgresBatch:
        batch = cls(model, target, writer_epoch, stage=f"driftq_stage_{uuid.uuid4().hex}")
        with model.database.transaction() as transaction:
            model.require(transaction, writer_epoch)
            batch._make(transaction)
        drop_older_stages(model.database, model.name, epoch=writer_epoch.epoch, current=batch._stage)
        return batch

    def commit(self, commit: StagedCommit) -> None:
        reports = commit.reports
        attempts = [report.attempt for report in reports]
        with self._model.database.transaction() as transaction:
            self._model.require(transaction, self._writer_epoch)
            has_key = transaction.row(self._model.queries["has_key"]) is not None
            staged = self._compare(transaction, reports, has_key=has_key)
            if any(report.changes for report in reports):
                self._merge(transaction, attempts, staged, commit.find_dead_letters)
            if any(report.waiting for report in reports):
                transaction.run(self._queries["add_staged_waiting"], attempts=attempts)
            if any(report.changes for report in reports):
                transaction.run(self._model.queries["drop_reached"])
            if any(report.dead_letters for report in reports):
                transaction.run(
                    self._queries["add_staged_dead_letters"], projection=self._model.name, attempts=attempts
                )
            self._model.add_dead_letters(transaction, commit.dead_letters)
            self._model.advance(transaction, commit.positions)
            self._drop(transaction)

    def _make(self, transaction: Transaction) -> None:
        is_first = transaction.row(self._model.queries["has_key"]) is None
        is_kept = is_first and transaction.row(self._queries["may_be_kept"]) is not None
        for statement in ("make_first_rows" if is_kept else "make_staged_rows", "make_stage"):
            transaction.run(self._queries[statement])
        transaction.run(
            self._queries["add_stage"],
            stages=_tables(self._stage),
            name=self._model.name,
            epoch=self._writer_epoch.epoch,
            generation=self._writer_epoch.generation,
        )

    def _compare(
        self, transaction: Transaction, reports: Sequence[AttemptReport], *, has_key: bool
    ) -> StagedChanges:
        """Raise ReadModelUnavailable unless the tables hold exactly the rows that the reports name.

        One number is enough: a crash takes rows away and adds none.
        """
        reported = sum(report.changes + report.waiting + report.dead_letters for report in reports)
        attempts = [report.attempt for report in reports]
        count = "count_rows" if has_key else "count_first_rows"
        rows = transaction.row(self._queries[count], attempts=attempts)
        others = transaction.row(self._queries["count_others"], attempts=attempts)
        staged = rows.staged + others.staged
        if staged != reported:
            raise ReadModelUnavailable(
                self._model.address, cause=f"tasks staged {reported} rows, and {staged} are there"
            )
        is_distinct = has_key and rows.hashes == rows.staged
        return StagedChanges(has_key=has_key, is_refused=others.refused > 0, is_distinct=is_distinct)

    def _merge(
        self,
        transaction: Transaction,
        attempts: list[int],
        staged: StagedChanges,
        find: FindDeadLetters | None,
    ) -> None:
        has_key, is_refused, is_distinct = staged
        if find is None:
            if is_refused:
                transaction.run(self._queries["take_refused"], attempts=attempts)
            elif not has_key and self._take_place(transaction, attempts):
                return
            rows = "staged" if is_distinct and not is_refused else "newest"
            transaction.run(self._queries[f"merge_{rows}" if has_key else "insert_newest"], attempts=attempts)
        if not has_key:
            transaction.run(self._model.queries["add_key"])
        if find is not None:
            for refused in _pages(self._merge_by_halves(transaction, attempts)):
                self._model.add_dead_letters(transaction, list(find(refused)))

    def _take_place(self, transaction: Transaction, attempts: list[int]) -> bool:
        """Make the staged rows the table of a read model that has none; False where that is not possible.

        Readers hold them off, or somebody has changed the table, or an aggregate has several rows.
        """
        savepoint = transaction.connection.begin_nested()
        try:
            transaction.run(self._queries["lock_tables"])
            can = transaction.row(self._queries["can_take_place"], attempts=attempts) is not None
            for statement in _TAKE_PLACE if can else ():
                transaction.run(self._queries[statement])
        except exc.DBAPIError as error:
            savepoint.rollback()
            if not (_state(error) or "").startswith(_NOT_POSSIBLE):
                raise
            return False
        if can:
            savepoint.commit()
        else:
            savepoint.rollback()  # Readers need not wait for a slower way.
        return can

    def _merge_by_halves(self, transaction: Transaction, attempts: list[int]) -> Iterator[RefusedChange]:
        """Merge what the table takes, a savepoint for each part, and yield the rows that it refuses."""
        transaction.run(self._queries["number_staged"], attempts=attempts)
        transaction.run(self._queries["index_numbered"])
        parts = [(1, transaction.row(self._queries["count_numbered"]).numbered)]
        while parts:
            first, last = parts.pop()
            savepoint = transaction.connection.begin_nested()
            try:
                transaction.run(self._queries["merge_numbered"], first=first, last=last)
            except exc.DBAPIError as error:
                savepoint.rollback()
                if not (_state(error) or "").startswith(REFUSES):
                    raise
                if first == last:
                    row = transaction.row(self._queries["numbered"], number=first)
                    yield RefusedChange(_change(row), f"{type(error.orig).__name__}: {error.orig}")
                else:
                    half = (first + last) // 2
                    parts += [(half + 1, last), (first, half)]
            else:
                savepoint.commit()

    def _drop(self, transaction: Transaction) -> None:
        savepoint = transaction.connection.begin_nested()
        try:
            transaction.run(self._queries["do_not_wait"])
            transaction.run(self._queries["drop_stages"])
            transaction.run(self._queries["remove_stages"], stages=_tables(self._stage))
        except exc.DBAPIError as error:
            savepoint.rollback()
            if _state(error) != _LOCK_TIMEOUT:
                raise
        else:
            savepoint.commit()


def make_stages(transaction: Transaction) -> None:
    """The table that knows every staging table."""
    transaction.run(staging_queries("", _NO_STAGE, transaction.renderer)["make_stages"])


def drop_older_stages(database: Database, projection: str, *, epoch: int, current: str = _NO_STAGE) -> None:
    """Drop what batches of this run and of earlier ones left, except tables that a task still writes."""
    older = staging_queries(projection, _NO_STAGE, database.renderer)["older_stages"]
    with database.snapshot() as transaction:
        found = transaction.rows(older, name=projection, epoch=epoch, current=_tables(current))
    for stage in [row.stage for row in found]:
        queries = staging_queries(projection, stage, database.renderer)
        try:
            with database.transaction() as transaction:
                transaction.run(queries["do_not_wait"])
                transaction.run(queries["drop_stage"])
                transaction.run(queries["remove_stages"], stages=[stage])
        except DatabaseBusy:
            continue


def _tables(stage: str) -> list[str]:
    return [stage, staged_rows_table(stage)]


def _pages(refused: Iterator[RefusedChange]) -> Iterator[list[RefusedChange]]:
    page: list[RefusedChange] = []
    for each in refused:
        page.append(each)
        if len(page) == _AT_ONCE:
            yield page
            page = []
    if page:
        yield page


def _change(row: Any) -> Change:
    state = None if row.content is None else _text(row.content)
    names = [_text(each or b"") for each in (row.aggregate_type, row.aggregate_id, row.event_id)]
    return Change(names[0], names[1], row.sequence_number or 0, names[2], state)


def _text(staged: bytes) -> str:
    """Staged bytes are the target's to check, and may be no text."""
    return bytes(staged).decode(errors="backslashreplace")


def _state(error: exc.DBAPIError) -> str | None:
    found: str | None = getattr(error.orig, "sqlstate", None)
    return found
