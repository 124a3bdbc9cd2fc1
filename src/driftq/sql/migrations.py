"""Tables by version: each package numbers its changes, and the database records which it has applied.

A package's changes are files `migrations/0001_what.sql`, or a pair `0001_what.sqlite.sql` and
`0001_what.postgres.sql`; a change that was released is never edited. Each is applied in the transaction
that records it. SQLite upgrades itself when a package opens it. PostgreSQL is shared, so it is upgraded on
request, by `driftq db upgrade`, and an outdated one refuses the start.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files

from sqlalchemy import inspect, text

from driftq.errors import SchemaOutdated, SchemaTooNew
from driftq.sql.database import Database
from driftq.sql.dialect import Dialect, SqlRenderer
from driftq.sql.queries import Queries, Statement, without_comments
from driftq.sql.transaction import Transaction

_FILE = re.compile(r"(\d{4})_([a-z_]+)(?:\.(sqlite|postgres))?\.sql")
_END = re.compile(r";\s*$", re.MULTILINE)
_LOCK = 0x6472_6966_7471  # Any number will do, as long as every release uses the same.


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of a package's tables, written for one engine or for both."""

    version: int
    name: str
    dialect: Dialect | None
    source: str


@dataclass(frozen=True, slots=True)
class Applied:
    """One change that an upgrade has made."""

    room: str
    version: int
    name: str


class Migrations:
    """All changes of one package, in order."""

    def __init__(self, room: str, changes: Sequence[Migration]) -> None:
        self.room = room
        self._changes = sorted(changes, key=lambda change: change.version)

    @classmethod
    def load(cls, package: str) -> "Migrations":
        """Those in the package's folder `migrations`; `room` is the last part of the package's name."""
        found = [(_FILE.fullmatch(file.name), file) for file in (files(package) / "migrations").iterdir()]
        changes = [
            Migration(
                int(match[1]),
                match[2],
                Dialect(match[3]) if match[3] else None,
                file.read_text(encoding="utf-8"),
            )
            for match, file in found
            if match
        ]
        return cls(package.rpartition(".")[2], changes)

    def changes(self, dialect: Dialect) -> list[Migration]:
        return [change for change in self._changes if change.dialect in (None, dialect)]

    def version(self, dialect: Dialect) -> int:
        """The newest one that this release knows."""
        return max((change.version for change in self.changes(dialect)), default=0)


def prepare(database: Database, packages: Sequence[Migrations]) -> None:
    """Make sure that the packages can work: upgrade SQLite, refuse an outdated PostgreSQL."""
    if database.dialect is Dialect.SQLITE and _outdated(database, packages):
        upgrade(database, packages)
    require(database, packages)


def upgrade(database: Database, packages: Sequence[Migrations]) -> list[Applied]:
    """Bring the tables of these packages up to date. Safe to run twice, and in two processes at once."""
    applied: list[Applied] = []
    with database.transaction() as transaction:
        _make_schemas(transaction)
    for room in packages:
        for change in room.changes(database.dialect):
            with database.transaction() as transaction:
                if _apply(transaction, room.room, change):
                    applied.append(Applied(room.room, change.version, change.name))
    return applied


def require(database: Database, packages: Sequence[Migrations]) -> None:
    """Raise SchemaOutdated or SchemaTooNew unless the tables are those of this release."""
    for room, found, newest in _versions(database, packages):
        if found < newest:
            raise SchemaOutdated(database.address, room=room, found=found, needed=newest)
        if found > newest:
            raise SchemaTooNew(database.address, room=room, found=found, known=newest)


def _outdated(database: Database, packages: Sequence[Migrations]) -> bool:
    return any(found < newest for _, found, newest in _versions(database, packages))


def _versions(database: Database, packages: Sequence[Migrations]) -> Iterator[tuple[str, int, int]]:
    """Package, version in the database, version of this release."""
    queries = _queries(database.renderer)
    with database.snapshot() as transaction:
        schema = database.renderer.schema if database.dialect is Dialect.POSTGRES else None
        if inspect(transaction.connection).has_table("schema_versions", schema=schema):
            versions = {row.room: row.version for row in transaction.rows(queries["versions"])}
        else:
            versions = {}
    for room in packages:
        yield room.room, versions.get(room.room, 0), room.version(database.dialect)


def _make_schemas(transaction: Transaction) -> None:
    """The schemas, and the table of versions; one upgrade at a time."""
    queries = _queries(transaction.renderer)
    if transaction.dialect is Dialect.POSTGRES:
        transaction.connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
        there = set(inspect(transaction.connection).get_schema_names())
        for schema in transaction.renderer.all_schemas:
            # IF NOT EXISTS asks for the right to create schemas even where there is nothing to create.
            if schema not in there:
                transaction.connection.execute(text(f'CREATE SCHEMA "{schema}"'))
    transaction.connection.execute(queries["make_versions"].text)


def _apply(transaction: Transaction, room: str, change: Migration) -> bool:
    queries = _queries(transaction.renderer)
    if transaction.dialect is Dialect.POSTGRES:
        transaction.connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
    if transaction.row(queries["version"], room=room, version=change.version):
        return False
    for source in filter(str.strip, _END.split(without_comments(change.source))):
        transaction.connection.execute(Statement.of(change.name, source, transaction.renderer).text)
    transaction.run(queries["record_version"], room=room, version=change.version, name=change.name)
    return True


def _queries(renderer: SqlRenderer) -> Queries:
    return Queries.load("driftq.sql", renderer)
