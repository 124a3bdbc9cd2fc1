"""The tables of the event store, and its queries rendered for one database."""

from driftq.errors import InvalidArgument
from driftq.sql import Database, Dialect, Migrations, Queries

SEQUENCE = "sequence"
"""The key of the allocator's schema in `open_database(schemas=…)`."""


def event_migrations(database: Database) -> list[Migrations]:
    """The migrations for `prepare` and `upgrade`.

    PostgreSQL's allocator table has its own version in each schema: naming another schema requires an
    upgrade, which creates an empty table there, and numbers continue after the stored events.
    """
    events = Migrations.load("driftq.eventstore")
    if database.dialect is Dialect.SQLITE:
        return [events]
    schema = database.renderer.schemas.get(SEQUENCE)
    if schema is None:
        raise InvalidArgument("schemas", f"must say where {SEQUENCE!r} is")
    allocator = Migrations.load("driftq.eventstore.allocator")
    return [events, Migrations(f"{SEQUENCE} in {schema}", allocator.changes(database.dialect))]


def load_queries(database: Database) -> Queries:
    return Queries.load("driftq.eventstore", database.renderer)
