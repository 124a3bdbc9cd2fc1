"""Write a sink of your own: a store of a few methods, and a read model with every guarantee of DriftQ's own.

The target here is one SQLite file that is used like a key-value store. Each method is one statement or one
short transaction, so that the same can be written for any target that has compare-and-set. The rules of
epochs, positions, rebuilds and dead letters are in `DocumentReadModel`. `driftq.testing.sinks` has the tests
that such a sink must pass.
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

from driftq.errors import ReadModelUnavailable
from driftq.model import Aggregate
from driftq.sinks import Application, Capabilities, Change, RefusedChange
from driftq.sinks.documents import ControlText, DocumentReadModel, Note

DOCUMENT_BYTES_MAX = 1 << 20
TABLES = """
CREATE TABLE IF NOT EXISTS controls (name PRIMARY KEY, text, version INTEGER);
CREATE TABLE IF NOT EXISTS places (place PRIMARY KEY);
CREATE TABLE IF NOT EXISTS documents (place, type, id, sequence INTEGER, event_id, state,
    PRIMARY KEY (place, type, id));
CREATE TABLE IF NOT EXISTS notes (place, kind, "group", id, text, PRIMARY KEY (place, kind, id));
CREATE INDEX IF NOT EXISTS notes_by_group ON notes (place, kind, "group");
"""
PUT = """
INSERT INTO documents VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET sequence = excluded.sequence, event_id = excluded.event_id, state = excluded.state
WHERE excluded.sequence > documents.sequence
"""


@dataclass(frozen=True)
class KeyValueSink:
    """A file for each projection in a folder. Plain values: Spark sends them to its tasks."""

    folder: str
    capabilities: ClassVar[Capabilities] = Capabilities(atomic=False, ordered=True)

    def connect(self, projection: str) -> DocumentReadModel:
        return DocumentReadModel.open(self, projection)

    def open_store(self, projection: str) -> KeyValueStore:
        return KeyValueStore(f"{self.folder}/{projection}.db", projection)


class KeyValueStore:
    """One projection's file, over one connection."""

    def __init__(self, path: str, projection: str) -> None:
        self.address = path
        self._view = f"{projection}_rows"
        with self._reaching():
            self._file = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)
            self._file.execute("PRAGMA journal_mode = wal")
            self._file.executescript(TABLES)

    def read_control(self, name: str) -> ControlText | None:
        with self._reaching():
            found = self._file.execute(
                "SELECT text, version FROM controls WHERE name = ?", (name,)
            ).fetchone()
        return ControlText(found[0], str(found[1])) if found else None

    def write_control(self, name: str, text: str, *, expected: str | None) -> bool:
        with self._reaching():
            if expected is None:
                sql, values = "INSERT OR IGNORE INTO controls VALUES (?, ?, 1)", [name, text]
            else:
                sql = "UPDATE controls SET text = ?, version = version + 1 WHERE name = ? AND version = ?"
                values = [text, name, expected]
            return self._file.execute(sql, values).rowcount == 1

    def create_place(self, place: str) -> None:
        with self._reaching():
            self._file.execute("INSERT OR IGNORE INTO places VALUES (?)", (place,))

    def publish_place(self, place: str) -> None:
        """Readers select from the view `NAME_rows`."""
        rows = (
            f"SELECT type, id, sequence, state FROM documents WHERE place = '{place}' AND state IS NOT NULL"
        )
        with self._transaction():
            if self._has(place):
                self._file.execute(f"DROP VIEW IF EXISTS {self._view}")
                self._file.execute(f"CREATE VIEW {self._view} AS {rows}")

    def drop_place(self, place: str) -> None:
        with self._transaction():
            for table in ("documents", "notes", "places"):
                self._file.execute(f"DELETE FROM {table} WHERE place = ?", (place,))

    def put(self, place: str, changes: Sequence[Change]) -> list[RefusedChange]:
        refused = [
            RefusedChange(change, f"is larger than {DOCUMENT_BYTES_MAX} bytes")
            for change in changes
            if len((change.state or "").encode()) > DOCUMENT_BYTES_MAX
        ]
        too_large = {each.change for each in refused}
        with self._writing(place):
            self._file.executemany(PUT, [(place, *change) for change in changes if change not in too_large])
        return refused

    def get(self, place: str, aggregates: Sequence[Aggregate]) -> dict[Aggregate, Change]:
        sql = "SELECT type, id, sequence, event_id, state FROM documents WHERE (place, type, id) = (?, ?, ?)"
        with self._reaching():
            rows = [self._file.execute(sql, (place, *aggregate)).fetchone() for aggregate in aggregates]
        return {Aggregate(row[0], row[1]): Change(*row) for row in rows if row}

    def scan(self, place: str) -> Iterator[Change]:
        sql = "SELECT type, id, sequence, event_id, state FROM documents WHERE place = ? ORDER BY type, id"
        with self._reaching():
            for row in self._file.execute(sql, (place,)):
                yield Change(*row)

    def put_notes(self, place: str, notes: Sequence[Note]) -> None:
        with self._writing(place):
            self._file.executemany(
                "INSERT OR REPLACE INTO notes VALUES (?, ?, ?, ?, ?)",
                [(place, *note) for note in notes],
            )

    def notes(self, place: str, kind: str, *, groups: Sequence[str] | None = None) -> Iterator[Note]:
        wanted = "" if groups is None else 'AND "group" IN (SELECT value FROM json_each(?))'
        sql = f'SELECT kind, "group", id, text FROM notes WHERE place = ? AND kind = ? {wanted} ORDER BY id'
        values = (place, kind) if groups is None else (place, kind, json.dumps(list(groups)))
        with self._reaching():
            for row in self._file.execute(sql, values):
                yield Note(*row)

    def remove_notes(self, place: str, kind: str, ids: Iterable[str]) -> None:
        with self._transaction():
            self._file.executemany(
                "DELETE FROM notes WHERE (place, kind, id) = (?, ?, ?)",
                [(place, kind, id) for id in ids],
            )

    def close(self) -> None:
        self._file.close()

    def _has(self, place: str) -> bool:
        return self._file.execute("SELECT 1 FROM places WHERE place = ?", (place,)).fetchone() is not None

    @contextmanager
    def _writing(self, place: str) -> Iterator[None]:
        """A late run must not bring back a place that was dropped."""
        with self._transaction():
            if not self._has(place):
                raise ReadModelUnavailable(self.address, cause=f"place {place} was dropped")
            yield

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._reaching(), self._file:
            self._file.execute("BEGIN IMMEDIATE")
            yield

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            raise ReadModelUnavailable(self.address, cause=str(error)) from error


def order(sequence: int, state: str) -> Change:
    return Change("order", "o-1", sequence, f"event-{sequence}", json.dumps({"state": state}))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        model = KeyValueSink(folder).connect("orders")
        first_run = model.take_over()
        model.apply(Application(changes=[order(2, "paid")]), first_run)
        model.apply(Application(changes=[order(1, "opened")]), first_run)  # Late: the newer one stays.
        for row in model.rows():
            print(f"{row.aggregate_id} at {row.sequence_number}: {row.state['state']}")

        rebuilt = model.beside()
        rebuild = rebuilt.take_over()
        rebuilt.apply(Application(changes=[order(2, "paid in full")]), rebuild)
        model.swap(rebuild)
        with sqlite3.connect(f"{folder}/orders.db") as reader:
            print("readers see", reader.execute("SELECT id, state FROM orders_rows").fetchall())
        reader.close()
        model.close()


if __name__ == "__main__":
    main()
