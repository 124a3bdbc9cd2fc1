"""From a URL to a database."""

from collections.abc import Mapping

from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from driftq.errors import InvalidArgument
from driftq.sql.clock import DatabaseClock
from driftq.sql.database import Database
from driftq.sql.sqlite import MEMORY, SqliteDatabase

_POSTGRES = ("postgresql", "postgres", "postgresql+psycopg")


def open_database(
    url: str,
    *,
    schema: str = "driftq",
    schemas: Mapping[str, str] | None = None,
    clock: DatabaseClock | None = None,
    connections: int = 8,
) -> Database:
    """The database at `sqlite:///PATH`, `sqlite:///:memory:` or `postgresql://USER:PASSWORD@HOST/NAME`.

    `schema` and `schemas` (short name → schema, for `{short.table}`) say where tables live on PostgreSQL;
    SQLite has no schemas. Without a `clock` the database's own decides, see `driftq.sql.clock`. Raises
    DatabaseUnavailable when it is not there: a start fails here and not at the first use.
    """
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise InvalidArgument("database url", "cannot be read as a URL") from None
    if parsed.drivername == "sqlite":
        return SqliteDatabase(parsed.database or MEMORY, clock=clock, readers=connections)
    if parsed.drivername in _POSTGRES:
        from driftq.sql.postgres import PostgresDatabase  # psycopg is needed only here

        return PostgresDatabase(parsed, schema=schema, schemas=schemas, clock=clock, connections=connections)
    raise InvalidArgument("database url", f"must begin with sqlite: or postgresql:, not {parsed.drivername}:")
