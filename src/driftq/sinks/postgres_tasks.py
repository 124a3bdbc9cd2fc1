"""What a Spark task needs of PostgreSQL: it stages Arrow rows with ADBC, tagged with task and attempt.

Changes go into a table with the types of the read model, in the order of its key. If PostgreSQL refuses one
of them, all that were given with it go into the other staging table, as bytes: the commit finds the one.

Loaded in Spark's Python workers, so it connects only when there is something to write or to read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from sqlalchemy.engine import make_url

from driftq.errors import DatabaseUnavailable, ReadModelUnavailable
from driftq.model import Aggregate
from driftq.sinks import arrow_rows
from driftq.sinks.arrow_rows import as_table
from driftq.sinks.dead_letter_table import outbox_row
from driftq.sinks.port import AttemptReport, Change, OutOfOrderEvent, ProjectionDeadLetter
from driftq.sinks.sql_model import SqlReadModel
from driftq.sinks.sql_queries import staged_rows_table
from driftq.sql import open_database

if TYPE_CHECKING:
    import adbc_driver_manager
    from adbc_driver_manager import dbapi

CHANGE, WAITING, DEAD_LETTER = 0, 1, 2
"""The kinds of staged rows."""
_COLUMNS = {"state": "content", "value": "content", "stage": "failed_at", "id": "letter_id"}
"""Columns of the staging table that have another name there."""
_OUTBOX = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in ("id", "topic", "identity")),
        *(pa.field(name, pa.int64()) for name in ("partition", "message_offset", "attempts")),
        *(pa.field(name, pa.string()) for name in ("letter_key", "event_id", "stage", "error", "value")),
    ]
)
"""A dead letter as the outbox has it."""
_LIBPQ = {
    "connect_timeout": "5",
    "application_name": "driftq",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "15000",
}
_AWAY = ("08", "53", "57P", "58", "25006")
REFUSES = ("22", "23", "44", "54", "P0")
"""Classes of SQLSTATE that are about a row: data, constraint, check option, limit, a trigger's own error."""
_BY_KEY = [("aggregate_id", "ascending"), ("aggregate_type", "ascending")]


@dataclass(frozen=True, slots=True)
class PostgresTarget:
    """Where a read model is; a task connects by it."""

    url: str = field(repr=False)
    schema: str
    name: str

    def named(self, name: str) -> PostgresTarget:
        return replace(self, name=name)

    @property
    def address(self) -> str:
        """For display, without a password."""
        return make_url(self.url).set(drivername="postgresql").render_as_string(hide_password=True)

    def libpq_url(self) -> str:
        url = make_url(self.url).set(drivername="postgresql")
        wanted = {name: value for name, value in _LIBPQ.items() if name not in url.query}
        return url.update_query_dict(wanted).render_as_string(hide_password=False)


@dataclass(frozen=True, slots=True)
class PostgresTaskWriter:
    """Begins attempts at one batch; `stage` is its table, beside that of its rows."""

    target: PostgresTarget
    stage: str

    def begin(self, *, task: int, attempt: int) -> PostgresAttempt:
        return PostgresAttempt(self.target, self.stage, task=task, attempt=attempt)


class PostgresAttempt:
    """One attempt; the commit takes its rows only if all are there."""

    def __init__(self, target: PostgresTarget, stage: str, *, task: int, attempt: int) -> None:
        self._target = target
        self._stage = stage
        self._task = task
        self._attempt = attempt
        self._staged = {CHANGE: 0, WAITING: 0, DEAD_LETTER: 0}
        self._connection: dbapi.Connection | None = None
        self._model: SqlReadModel | None = None

    def current(self, aggregates: Sequence[Aggregate]) -> dict[Aggregate, Change]:
        return self._reading().current(aggregates)

    def waiting(self, aggregates: Sequence[Aggregate]) -> list[OutOfOrderEvent]:
        return self._reading().waiting(aggregates)

    def write_changes(self, changes: pa.Table) -> None:
        if not self._write_rows(changes):
            self._write(CHANGE, changes)

    def write_waiting(self, events: Sequence[OutOfOrderEvent]) -> None:
        self._write(WAITING, as_table(events, arrow_rows.WAITING))

    def write_dead_letters(self, dead_letters: Sequence[ProjectionDeadLetter]) -> None:
        rows = [outbox_row(self._target.name, dead) for dead in dead_letters]
        self._write(DEAD_LETTER, pa.Table.from_pylist(rows, schema=_OUTBOX))

    def finish(self) -> AttemptReport:
        if self._connection is not None:
            with self._reaching():
                self._connection.commit()
        return AttemptReport(
            self._task,
            self._attempt,
            changes=self._staged[CHANGE],
            waiting=self._staged[WAITING],
            dead_letters=self._staged[DEAD_LETTER],
        )

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        if self._model is not None:
            self._model.close()

    def _write_rows(self, changes: pa.Table) -> bool:
        """False where PostgreSQL refuses one of them: then none of them is written."""
        if not changes.num_rows:
            return True
        ordered = changes.take(pc.sort_indices(changes, sort_keys=_BY_KEY))
        tags = pa.repeat(pa.scalar(self._attempt, pa.int64()), ordered.num_rows)
        tagged = ordered.add_column(0, "attempt", tags)
        with self._reaching():
            connection = self._connected()
            connection.commit()  # What was written before stays if this part is refused.
            try:
                self._copy(connection, staged_rows_table(self._stage), tagged)
            except _errors() as error:
                if not (error.sqlstate or "").startswith(REFUSES):
                    raise
                connection.rollback()
                return False
        self._staged[CHANGE] += changes.num_rows
        return True

    def _write(self, kind: int, rows: pa.Table) -> None:
        if not rows.num_rows:
            return
        tagged = _tagged(rows, task=self._task, attempt=self._attempt, kind=kind)
        with self._reaching():
            self._copy(self._connected(), self._stage, tagged)
        self._staged[kind] += rows.num_rows

    def _copy(self, connection: dbapi.Connection, table: str, rows: pa.Table) -> None:
        with connection.cursor() as cursor:
            cursor.adbc_ingest(table, rows, mode="append", db_schema_name=self._target.schema)

    def _connected(self) -> dbapi.Connection:
        if self._connection is None:
            self._connection = _connect(self._target.libpq_url())
        return self._connection

    def _reading(self) -> SqlReadModel:
        if self._model is None:
            database = open_database(self._target.url, schema=self._target.schema, connections=1)
            self._model = SqlReadModel(self._target.name, database)
        return self._model

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        """Raise an Unavailable where the server is away, or where the table was dropped."""
        from adbc_driver_manager import AdbcStatusCode

        try:
            yield
        except _errors() as error:
            if error.status_code == AdbcStatusCode.NOT_FOUND:
                gone = "its staging table was dropped"
                raise ReadModelUnavailable(self._target.address, cause=gone) from error
            lost = (AdbcStatusCode.IO, AdbcStatusCode.INVALID_STATE, AdbcStatusCode.CANCELLED)
            if error.status_code in lost or (error.sqlstate or "").startswith(_AWAY):
                said = str(error).strip().splitlines()[0]
                raise DatabaseUnavailable(self._target.address, cause=said) from error
            raise


def _errors() -> type[adbc_driver_manager.Error]:
    """Of the driver, which is loaded where rows are written."""
    from adbc_driver_manager import Error

    return Error


def _connect(url: str) -> dbapi.Connection:
    from adbc_driver_postgresql import dbapi as postgres

    connection: dbapi.Connection = postgres.connect(url)
    return connection


def _tagged(rows: pa.Table, *, task: int, attempt: int, kind: int) -> pa.Table:
    """The rows as the staging table has them: tags first, texts as bytes."""
    count = rows.num_rows
    columns: dict[str, Any] = {
        "task": pa.repeat(pa.scalar(task, pa.int32()), count),
        "attempt": pa.repeat(pa.scalar(attempt, pa.int64()), count),
        "kind": pa.repeat(pa.scalar(kind, pa.int16()), count),
    }
    for field_ in rows.schema:
        column = rows[field_.name]
        if pa.types.is_string(field_.type) or pa.types.is_large_string(field_.type):
            column = column.cast(pa.binary())
        columns[_COLUMNS.get(field_.name, field_.name)] = column
    return pa.table(columns)
