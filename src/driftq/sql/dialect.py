"""The few places where SQLite and PostgreSQL need different SQL, so that most of it is written once.

In the text of a query or migration:

    {claims}                    a table of ours, in its schema on PostgreSQL
    {sequence.counters}         a table in the schema known as `sequence`
    {now}                       the time in milliseconds, by the clock of `driftq.sql.clock`
    {rows g: id text, n bigint} the JSON rows bound as :g, as a row source called g
    kept.id {among g: id}       looks the rows of g up in kept by its index, see below
    {for_update} {for_update g} the lock on selected rows; SQLite has the whole file already
    {greatest}(a, b)            the larger value
    {text} {bigint}             column types; text is compared byte for byte
    {strict} {clustered}        how SQLite keeps the table: typed, and sorted by its primary key

Neither engine knows how few given rows there are, and a join of g with a table may read all of the table.
Wherever one is joined with a table that grows, say `among` for the first column of its primary key, and
let no other condition fit the start of the key: PostgreSQL then turns the given values into an index
condition, and SQLite has no other way than to go through g.
"""

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from driftq.errors import InvalidArgument

_MARK = re.compile(r"\{([^{}]+)\}")
_ROWS = re.compile(r"rows ([a-z_]+): (.+)", re.DOTALL)
_AMONG = re.compile(r"among ([a-z_]+): ([a-z_]+)")
_TABLE = re.compile(r"(?:([a-z_]+)\.)?([a-z_]+)")
_SCHEMA_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")


class Dialect(enum.StrEnum):
    SQLITE = "sqlite"
    POSTGRES = "postgres"


_WORDS: Mapping[Dialect, Mapping[str, str]] = {
    Dialect.SQLITE: {
        "now": ":now_ms",
        "for_update": "",
        "greatest": "max",
        "text": "TEXT COLLATE BINARY",
        "bigint": "INTEGER",
        "strict": "STRICT",
        "clustered": "STRICT, WITHOUT ROWID",
    },
    Dialect.POSTGRES: {
        "now": "CAST(floor(extract(epoch FROM clock_timestamp()) * 1000) AS bigint)",
        "for_update": "FOR UPDATE",
        "greatest": "greatest",
        "text": 'text COLLATE "C"',
        "bigint": "bigint",
        "strict": "",
        "clustered": "",
    },
}


@dataclass(frozen=True)
class SqlRenderer:
    """How one database wants its SQL."""

    dialect: Dialect
    schema: str = "driftq"
    schemas: Mapping[str, str] = field(default_factory=dict)
    clock_given: bool = False

    def __post_init__(self) -> None:
        for name in self.all_schemas:
            if not _SCHEMA_NAME.fullmatch(name):
                raise InvalidArgument("schema", f"{name!r} cannot name a PostgreSQL schema")

    @property
    def all_schemas(self) -> list[str]:
        return sorted({self.schema, *self.schemas.values()})

    def render(self, text: str) -> str:
        """The text with every mark replaced; raises ValueError for an unknown mark."""
        return _MARK.sub(lambda mark: self._expand(mark[1]), text)

    def _expand(self, mark: str) -> str:
        if mark == "now" and self.clock_given and self.dialect is Dialect.POSTGRES:
            return "CAST(:now_ms AS bigint)"
        if (word := _WORDS[self.dialect].get(mark)) is not None:
            return word
        if mark.startswith("for_update "):
            return "" if self.dialect is Dialect.SQLITE else f"FOR UPDATE OF {mark.split()[1]}"
        if rows := _ROWS.fullmatch(mark):
            return self._rows(rows[1], rows[2])
        if among := _AMONG.fullmatch(mark):
            return self._among(among[1], among[2])
        if table := _TABLE.fullmatch(mark):
            return self._table(table[2], schema=self.schemas[table[1]] if table[1] else self.schema)
        raise ValueError(f"unknown mark in SQL: {{{mark}}}")

    def _table(self, name: str, *, schema: str) -> str:
        return f'"{name}"' if self.dialect is Dialect.SQLITE else f'"{schema}"."{name}"'

    def _rows(self, source: str, columns: str) -> str:
        if self.dialect is Dialect.POSTGRES:
            return f"json_to_recordset(CAST(:{source} AS json)) AS {source}({columns})"
        names = [column.split()[0] for column in columns.split(",")]
        picked = ", ".join(f"value ->> '{name}' AS {name}" for name in names)
        return f"(SELECT {picked} FROM json_each(:{source})) AS {source}"

    def _among(self, source: str, column: str) -> str:
        if self.dialect is Dialect.SQLITE:
            return "IS NOT NULL"
        given = f"json_to_recordset(CAST(:{source} AS json)) AS among({column} text)"
        return f"= ANY(ARRAY(SELECT among.{column} FROM {given}))"
