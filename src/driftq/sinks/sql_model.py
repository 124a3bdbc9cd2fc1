"""A read model in SQL: one transaction for rows, registry, waiting events, dead letters and positions.

The projection's row in `driftq_projections` is locked first in every application, so a run that was replaced
can commit nothing once its successor has taken over: it waits for the lock and then reads the newer epoch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from driftq.errors import ProjectionFenced, ReadModelNotFound, ReadModelSwapped
from driftq.model import Aggregate
from driftq.sinks.dead_letter_table import DeadLetterTable, SqlProjectionOutbox
from driftq.sinks.dead_letters import RedriveMark
from driftq.sinks.names import beside, is_beside
from driftq.sinks.port import (
    Application,
    Change,
    OutOfOrderEvent,
    ProjectionDeadLetter,
    ReadModelRow,
    RegistryRow,
    TopicPartition,
    WriterEpoch,
)
from driftq.sinks.sql_queries import OWN, SHARED, model_queries, rows_table
from driftq.sql import Database, Queries, Statement, Transaction, as_rows

_FETCHED = 5_000


class Merge(Protocol):
    """How a database merges many rows: of each aggregate the row with the highest sequence stays."""

    def __call__(self, transaction: Transaction, queries: Queries, changes: Sequence[Change]) -> None: ...


class PrepareSchema(Protocol):
    """What a database needs before tables can be made; admits one caller at a time."""

    def __call__(self, transaction: Transaction) -> None: ...


def merge_in_file(transaction: Transaction, queries: Queries, changes: Sequence[Change]) -> None:
    """SQLite is in this process: the driver runs the statement row by row."""
    transaction.change_each(queries["merge"], list(changes))


def prepare_file(transaction: Transaction) -> None:
    """Nothing to do: SQLite admits one writer at a time."""


class SqlReadModel:
    """The same on SQLite and PostgreSQL, except for the two functions; SQLite's are the default.

    `require`, `add_dead_letters` and `advance` are steps of a transaction.
    """

    def __init__(
        self,
        name: str,
        database: Database,
        *,
        merge: Merge = merge_in_file,
        prepare_schema: PrepareSchema = prepare_file,
    ) -> None:
        self.name = name
        self.address = database.address
        self.database = database
        self._merge = merge
        self._prepare_schema = prepare_schema
        self.queries = model_queries(name, database.renderer)
        self._dead_letters = DeadLetterTable(name, database.renderer)

    def take_over(self) -> WriterEpoch:
        with self.database.transaction() as transaction:
            self._prepare_schema(transaction)
            for statement in SHARED:
                transaction.connection.execute(self.queries[statement].text)
            self._dead_letters.make(transaction)
            if is_beside(self.name):
                self._empty(transaction)
            self._make(transaction)
            self._adopt_positions(transaction)
            row = transaction.row(self.queries["take_over"], name=self.name)
        return WriterEpoch(row.epoch, row.generation)

    def apply(self, application: Application, writer_epoch: WriterEpoch) -> None:
        with self.database.transaction() as transaction:
            self.require(transaction, writer_epoch)
            if application.changes:
                self._merge(transaction, self.queries, application.changes)
            if application.waiting:
                self._run(transaction, "add_waiting", [row._asdict() for row in application.waiting])
            if application.changes:
                transaction.run(self.queries["drop_reached"])
            self.add_dead_letters(transaction, application.dead_letters)
            self.advance(transaction, application.positions)

    def positions(self) -> dict[TopicPartition, int]:
        with self.database.snapshot() as transaction:
            if not self._exists(transaction):
                return {}
            found = transaction.rows(self.queries["positions"], name=self.name)
        return {TopicPartition(*row[:3]): row.applied_offset for row in found}

    def current(self, aggregates: Sequence[Aggregate]) -> dict[Aggregate, Change]:
        with self.database.snapshot() as transaction:
            found = transaction.rows(self.queries["current"], g=_given(aggregates))
        return {Aggregate(row.aggregate_type, row.aggregate_id): Change(*row) for row in found}

    def waiting(self, aggregates: Sequence[Aggregate]) -> list[OutOfOrderEvent]:
        with self.database.snapshot() as transaction:
            found = transaction.rows(self.queries["waiting"], g=_given(aggregates))
        return [OutOfOrderEvent(*row) for row in found]

    def rows(self) -> Iterator[ReadModelRow]:
        decode = msgspec.json.Decoder().decode
        for kind, aggregate_id, sequence, state in self._stream(self.queries["rows"]):
            yield ReadModelRow(kind, aggregate_id, sequence, decode(state))

    def registry(self) -> Iterator[RegistryRow]:
        for row in self._stream(self.queries["registry"]):
            yield RegistryRow(*row)

    def dead_letters(self) -> Iterator[ProjectionDeadLetter]:
        with self.database.snapshot() as transaction:
            if not self._exists(transaction):
                raise ReadModelNotFound(self.name, place=self.address)
            yield from self._dead_letters.all(transaction)

    def outbox(self, writer_epoch: WriterEpoch) -> SqlProjectionOutbox:
        return SqlProjectionOutbox(self.database, self._dead_letters, writer_epoch)

    def put(self, changes: Sequence[Change]) -> None:
        with self.database.transaction() as transaction:
            if not self._exists(transaction):
                raise ReadModelNotFound(self.name, place=self.address)
            transaction.row(self.queries["writer_epoch"], name=self.name)  # Before rows, as everywhere.
            self._merge(transaction, self.queries, changes)
            transaction.run(self.queries["drop_reached"])

    def redrive(self, change: Change, dead_letter_id: str, *, by: str) -> bool:
        with self.database.transaction() as transaction:
            transaction.row(self.queries["writer_epoch"], name=self.name)  # Before rows, as everywhere.
            given = _given([Aggregate(change.aggregate_type, change.aggregate_id)])
            current = transaction.row(self.queries["current"], g=given)
            is_newer = current is None or current.sequence_number < change.sequence_number
            if is_newer:
                self._merge(transaction, self.queries, [change])
                transaction.run(self.queries["drop_reached"])
            self._dead_letters.mark_redriven(transaction, dead_letter_id, by=by)
        return is_newer

    def redrive_marks(self) -> dict[str, RedriveMark]:
        with self.database.snapshot() as transaction:
            return self._dead_letters.marks(transaction)

    def beside(self) -> SqlReadModel:
        return SqlReadModel(
            beside(self.name), self.database, merge=self._merge, prepare_schema=self._prepare_schema
        )

    def swap(self, writer_epoch: WriterEpoch) -> None:
        fresh = beside(self.name)
        theirs = model_queries(fresh, self.database.renderer, renamed=self.name)
        with self.database.transaction() as transaction:
            self._prepare_schema(transaction)
            transaction.row(
                self.queries["writer_epoch"], name=self.name
            )  # Locks the row: no batch is applied from here on.
            self.beside().require(transaction, writer_epoch)
            for queries in (self.queries, theirs):
                transaction.run(queries["drop_view"])
            transaction.run(self.queries["drop_rows"])
            transaction.run(self.queries["drop_waiting_table"])
            transaction.run(theirs["rename_rows"])
            transaction.run(theirs["rename_waiting"])
            transaction.run(self.queries["make_view"])
            self._dead_letters.take_from(transaction, fresh)
            transaction.run(self.queries["drop_positions"], name=self.name)
            transaction.run(self.queries["move_positions"], name=self.name, beside=fresh)
            transaction.run(self.queries["next_generation"], name=self.name)

    def close(self) -> None:
        self.database.close()

    def add_dead_letters(
        self, transaction: Transaction, dead_letters: Sequence[ProjectionDeadLetter]
    ) -> None:
        if dead_letters:
            self._dead_letters.add(transaction, dead_letters)

    def advance(self, transaction: Transaction, positions: Mapping[TopicPartition, int]) -> None:
        if positions:
            reached = [{**place._asdict(), "applied_offset": offset} for place, offset in positions.items()]
            self._run(transaction, "advance", reached)

    def _make(self, transaction: Transaction) -> None:
        if self._exists(transaction):
            return
        for statement in (*OWN, "drop_view", "make_view"):
            transaction.connection.execute(self.queries[statement].text)

    def _adopt_positions(self, transaction: Transaction) -> None:
        """Those that an earlier version stored."""
        if transaction.row(self.queries["exists"], table_name="driftq_positions") is not None:
            for statement in ("adopt_positions", "drop_adopted"):
                transaction.run(self.queries[statement], name=self.name)

    def _empty(self, transaction: Transaction) -> None:
        for statement in ("drop_view", "drop_rows", "drop_waiting_table"):
            transaction.connection.execute(self.queries[statement].text)
        transaction.run(self.queries["drop_positions"], name=self.name)
        self._dead_letters.empty(transaction)

    def require(self, transaction: Transaction, writer_epoch: WriterEpoch) -> None:
        """Lock the projection's row, and refuse a run that it no longer names."""
        row = transaction.row(self.queries["writer_epoch"], name=self.name)
        if row is None or row.epoch != writer_epoch.epoch:
            current = row.epoch if row is not None else 0
            raise ProjectionFenced(self.name, epoch=writer_epoch.epoch, current=current)
        if row.generation != writer_epoch.generation:
            raise ReadModelSwapped(self.name)

    def _exists(self, transaction: Transaction) -> bool:
        return transaction.row(self.queries["exists"], table_name=rows_table(self.name)) is not None

    def _run(self, transaction: Transaction, name: str, given: list[dict[str, object]]) -> None:
        more = {} if name == "add_waiting" else {"projection": self.name}
        transaction.run(self.queries[name], g=as_rows(given), **more)

    def _stream(self, statement: Statement, **given: object) -> Iterator[Any]:
        """A few thousand rows at a time, all from one snapshot."""
        with self.database.snapshot() as transaction:
            if not self._exists(transaction):
                raise ReadModelNotFound(self.name, place=self.address)
            yield from transaction.connection.execution_options(yield_per=_FETCHED).execute(
                statement.text, given
            )


def _given(aggregates: Sequence[Aggregate]) -> str:
    return as_rows(
        [{"aggregate_type": kind, "aggregate_id": aggregate_id} for kind, aggregate_id in aggregates]
    )
