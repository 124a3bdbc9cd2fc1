"""The tables of the event store, and its queries spelled for one database."""

from dataclasses import replace

from driftq.errors import InvalidArgument
from driftq.sql import Database, Dialect, Migrations, Queries

SEQUENCE = "sequence"
"""The short name under which `open_database(schemas=…)` is told the schema of the allocator's table."""


def rooms(database: Database) -> list[Migrations]:
    """What `prepare` and `upgrade` need to know.

    The allocator's table is versioned by itself for each schema: naming another schema calls for an upgrade,
    which makes an empty table there, and numbers go on after the stored events.
    """
    allocator = Migrations.load("driftq.eventstore.allocator")
    name = "sequence"
    if database.dialect is Dialect.POSTGRES:
        schema = database.spelling.schemas.get(SEQUENCE)
        if schema is None:
            raise InvalidArgument("schemas", f"must say where {SEQUENCE!r} is")
        name = f"sequence in {schema}"
    return [
        Migrations.load("driftq.eventstore"),
        Migrations(name, allocator.changes(database.dialect)),
    ]


def load_queries(database: Database) -> Queries:
    spelling = database.spelling
    if SEQUENCE not in spelling.schemas:  # SQLite has no schemas, and the mark must mean something.
        spelling = replace(spelling, schemas={**spelling.schemas, SEQUENCE: spelling.schema})
    return Queries.load("driftq.eventstore", spelling)
