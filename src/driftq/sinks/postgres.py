"""Read models in PostgreSQL: tasks stage rows, or the driver copies its own, and one statement merges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

from sqlalchemy import exc, inspect, text
from sqlalchemy.engine import make_url

from driftq.errors import InvalidArgument
from driftq.sinks.names import beside, projection_name
from driftq.sinks.port import Capabilities, Change, WriterEpoch
from driftq.sinks.postgres_staging import PostgresBatch, drop_older_stages, make_stages
from driftq.sinks.postgres_tasks import PostgresTarget
from driftq.sinks.sql_model import SqlReadModel
from driftq.sql import Database, Queries, Transaction, open_database

if TYPE_CHECKING:
    import psycopg

_LOCK = 0x6472_6966_7472  # Any number, as long as every release uses the same.
_NOT_ALLOWED = "42501"
_COPY = b"COPY driftq_stage (aggregate_type, aggregate_id, sequence_number, event_id, state) FROM STDIN"


@dataclass(frozen=True, slots=True)
class PostgresSink:
    """Tables in `schema` of the database at `url`; the schema is created if it is missing."""

    url: str = field(repr=False)
    schema: str = "read_models"
    capabilities: ClassVar[Capabilities] = Capabilities(atomic=True)

    @classmethod
    def from_url(cls, url: str) -> Self:
        """`postgresql://user:password@host/name`, as the database setting takes it."""
        try:
            named = make_url(url).database or ""
        except (exc.ArgumentError, ValueError):
            named = ""
        if not named:
            raise InvalidArgument("sink", "write the address as postgresql://user:password@host/name")
        return cls(url)

    def connect(self, projection: str) -> PostgresReadModel:
        name = projection_name(projection)
        database = open_database(self.url, schema=self.schema, connections=2)
        return PostgresReadModel(PostgresTarget(self.url, self.schema, name), database)


class PostgresReadModel(SqlReadModel):
    """A read model that Spark's tasks can write as well."""

    def __init__(self, target: PostgresTarget, database: Database) -> None:
        super().__init__(target.name, database, merge=_merge, prepare_schema=_prepare_schema)
        self._target = target

    def take_over(self) -> WriterEpoch:
        try:
            writer_epoch = super().take_over()
        except exc.ProgrammingError as refused:
            if getattr(refused.orig, "sqlstate", None) != _NOT_ALLOWED:
                raise
            said = str(refused.orig).splitlines()[0]
            raise InvalidArgument(
                "sink",
                f"{self.address} refuses its user ({said}): grant it CREATE on the database, "
                f"or make the schema {self._target.schema} its own",
            ) from refused
        drop_older_stages(self.database, self.name, epoch=writer_epoch.epoch)
        return writer_epoch

    def open_batch(self, writer_epoch: WriterEpoch) -> PostgresBatch:
        return PostgresBatch.open(self, self._target, writer_epoch)

    def beside(self) -> PostgresReadModel:
        return PostgresReadModel(self._target.named(beside(self.name)), self.database)


def _merge(transaction: Transaction, queries: Queries, changes: Sequence[Change]) -> None:
    connection = transaction.connection
    if transaction.row(queries["has_key"]) is None:
        connection.execute(queries["add_key"].text)
    connection.execute(queries["make_stage"].text)
    _copy(connection.connection.driver_connection, changes)
    connection.execute(queries["merge"].text)


def _copy(driver: Any, changes: Sequence[Change]) -> None:
    """Directly through the driver; its errors are raised as those of SQLAlchemy."""
    import psycopg

    connection: psycopg.Connection[Any] = driver
    try:
        with connection.cursor() as cursor, cursor.copy(_COPY) as copy:
            for change in changes:
                copy.write_row(change)
    except psycopg.Error as error:
        translated = exc.DBAPIError.instance(
            _COPY.decode(), None, error, psycopg.Error, connection_invalidated=connection.broken
        )
        raise translated from error


def _prepare_schema(transaction: Transaction) -> None:
    """The schema, and a lock that is held until the tables exist: two runs may start at once."""
    connection = transaction.connection
    connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
    schema = transaction.renderer.schema
    # IF NOT EXISTS asks for the right to create schemas even where there is nothing to create.
    if schema not in inspect(connection).get_schema_names():
        connection.execute(text(f'CREATE SCHEMA "{schema}"'))
    make_stages(transaction)
