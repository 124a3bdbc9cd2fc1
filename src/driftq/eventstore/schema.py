"""The tables of the event store, and its queries spelled for one database."""

from driftq.errors import InvalidArgument
from driftq.sql import Database, Dialect, Migrations, Queries

SEQUENCE = "sequence"
"""The short name under which `open_database(schemas=…)` is told the schema of the allocator's table."""


def rooms(database: Database) -> list[Migrations]:
    """What `prepare` and `upgrade` need to know.

    PostgreSQL's allocator table is versioned by itself for each schema: naming another schema calls for an
    upgrade, which makes an empty table there, and numbers go on after the stored events.
    """
    events = Migrations.load("driftq.eventstore")
    if database.dialect is Dialect.SQLITE:
        return [events]
    schema = database.spelling.schemas.get(SEQUENCE)
    if schema is None:
        raise InvalidArgument("schemas", f"must say where {SEQUENCE!r} is")
    allocator = Migrations.load("driftq.eventstore.allocator")
    return [events, Migrations(f"{SEQUENCE} in {schema}", allocator.changes(database.dialect))]


def load_queries(database: Database) -> Queries:
    return Queries.load("driftq.eventstore", database.spelling)
