"""The dead letters of a projection in SQL: its outbox, and the marks of redrives and rebuilds.

Every function works in a given transaction, so that a dead letter is kept or dropped with the position that
passes its event. The table of earlier versions, without ids, is adopted when a run takes over.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from driftq.errors import RelayFenced
from driftq.model.dead_letter import HandlerDeadLetter
from driftq.sinks.dead_letters import BY_REBUILD, RedriveMark, handler_dead_letter
from driftq.sinks.port import ProjectionDeadLetter, WriterEpoch
from driftq.sql import Database, Queries, SqlRenderer, Statement, Transaction, as_rows, perform, storable
from driftq.sql.queries import split_queries

_TABLE, _EARLIER = "driftq_dlq", "driftq_dead_letters"
_CHUNK = 500


class DeadLetterTable:
    """The rows of one projection, or of the read model beside it that a rebuild fills."""

    def __init__(self, projection: str, renderer: SqlRenderer) -> None:
        self.projection = projection
        self.queries = dead_letter_queries(renderer)

    def make(self, transaction: Transaction) -> None:
        """Create the table, and adopt what an earlier version stored for this projection."""
        for statement in ("make", "make_index"):
            transaction.connection.execute(self.queries[statement].text)
        if self._exists(transaction, _EARLIER):
            earlier = transaction.rows(self.queries["earlier"], projection=self.projection)
            for start in range(0, len(earlier), _CHUNK):
                self._insert(transaction, [_adopted(row) for row in earlier[start : start + _CHUNK]])
            transaction.run(self.queries["drop_earlier"], projection=self.projection)

    def add(self, transaction: Transaction, dead_letters: Sequence[ProjectionDeadLetter]) -> None:
        """Those that are there stay as they are."""
        self._insert(transaction, [(dead, None) for dead in dead_letters])

    def all(self, transaction: Transaction) -> Iterator[ProjectionDeadLetter]:
        """By topic, partition and offset."""
        if self._exists(transaction, _EARLIER):
            for row in self._streamed(transaction, "earlier"):
                yield _adopted(row)[0]
        if self._exists(transaction, _TABLE):
            for row in self._streamed(transaction, "all"):
                yield ProjectionDeadLetter(*row)

    def marks(self, transaction: Transaction) -> dict[str, RedriveMark]:
        if not self._exists(transaction, _TABLE):
            return {}
        rows = transaction.rows(self.queries["marks"], projection=self.projection)
        return {id: RedriveMark(*mark) for id, *mark in rows}

    def mark_redriven(self, transaction: Transaction, id: str, *, by: str) -> None:
        given = {"projection": self.projection, "id": id, "redriven_by": storable(by)}
        transaction.run(self.queries["mark_redriven"], **given)

    def take_from(self, transaction: Transaction, beside: str) -> None:
        """A rebuild takes this one's place, with its dead letters. Before its positions are moved."""
        both = {"projection": self.projection, "beside": beside}
        transaction.run(self.queries["mark_rebuilt"], **both, redriven_by=BY_REBUILD)
        transaction.run(self.queries["unmark_given_up"], **both)
        transaction.run(self.queries["move"], **both)
        transaction.run(self.queries["drop"], projection=beside)

    def empty(self, transaction: Transaction) -> None:
        transaction.run(self.queries["drop"], projection=self.projection)

    def _insert(
        self, transaction: Transaction, dead_letters: Sequence[tuple[ProjectionDeadLetter, int | None]]
    ) -> None:
        rows = [outbox_row(self.projection, dead, recorded_at) for dead, recorded_at in dead_letters]
        transaction.run(self.queries["add"], projection=self.projection, g=as_rows(rows))

    def _streamed(self, transaction: Transaction, query: str) -> Iterator[Any]:
        reading = transaction.connection.execution_options(yield_per=_CHUNK)
        yield from reading.execute(self.queries[query].text, {"projection": self.projection})

    def _exists(self, transaction: Transaction, table: str) -> bool:
        return transaction.row(self.queries["exists"], table_name=table) is not None


class SqlProjectionOutbox:
    """What the relay of one run publishes. The projection's epoch fences it, as it fences the run."""

    def __init__(self, database: Database, table: DeadLetterTable, writer_epoch: WriterEpoch) -> None:
        self._database = database
        self._table = table
        self._epoch = writer_epoch.epoch

    def pending(self, *, limit: int, after: HandlerDeadLetter | None = None) -> list[HandlerDeadLetter]:
        after_at, after_id = (0, "") if after is None else (after.at, after.id)
        given = {"projection": self._table.projection, "after_at": after_at, "after_id": after_id}
        with self._database.snapshot() as transaction:
            self._require(transaction, "epoch")
            rows = transaction.rows(self._table.queries["unpublished"], most=limit, **given)
        return [
            handler_dead_letter(self._table.projection, ProjectionDeadLetter(*row[:-1]), at=row.recorded_at)
            for row in rows
        ]

    def mark_published(self, dead_letters: Sequence[HandlerDeadLetter]) -> None:
        given = as_rows([{"id": each.id} for each in dead_letters])

        def mark(transaction: Transaction) -> None:
            self._require(transaction, "lock_epoch")
            transaction.run(self._table.queries["mark_published"], projection=self._table.projection, g=given)

        perform(self._database, mark)

    def _require(self, transaction: Transaction, query: str) -> None:
        row = transaction.row(self._table.queries[query], projection=self._table.projection)
        current = 0 if row is None else int(row.epoch)
        if current != self._epoch:
            what = f"projection {self._table.projection}"
            raise RelayFenced(what, epoch=self._epoch, current=current)


def dead_letter_queries(renderer: SqlRenderer) -> Queries:
    statements = {
        name: Statement.of(name, source.replace("{schema}", f"'{renderer.schema}'"), renderer)
        for name, dialect, source in split_queries(_source())
        if dialect in (None, renderer.dialect)
    }
    return Queries(statements)


@cache
def _source() -> str:
    return (files("driftq.sinks") / "queries" / "dead_letters.sql").read_text(encoding="utf-8")


def _adopted(row: Any) -> tuple[ProjectionDeadLetter, int]:
    """A row of an earlier version: of a topic that is known by its name alone."""
    return ProjectionDeadLetter(*row[:7]), row.recorded_at


def outbox_row(
    projection: str, dead: ProjectionDeadLetter, recorded_at: int | None = None
) -> dict[str, object]:
    """Made valid for both engines: a dead letter is never refused because of its text."""
    letter = handler_dead_letter(projection, dead, at=0)
    return {
        "id": letter.id,
        "topic": letter.topic,
        "identity": letter.identity,
        "partition": letter.partition,
        "message_offset": letter.offset,
        "letter_key": letter.key,
        "event_id": letter.event_id,
        "stage": letter.stage,
        "error": letter.error,
        "attempts": letter.attempts,
        "value": letter.value,
        "recorded_at": recorded_at,
    }
