"""One open transaction: where statements run, and where a handler's own SQL may join."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection, CursorResult

from driftq.sql.clock import Clock
from driftq.sql.dialect import Dialect, Spelling
from driftq.sql.queries import Statement


def as_rows(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows for a `{rows …}` source: one bound text, however many rows there are."""
    return msgspec.json.encode(rows).decode()


class Transaction:
    """Statements on one connection, all kept or none. It is over when its `with` block is."""

    __slots__ = ("_clock", "connection", "spelling")

    def __init__(self, connection: Connection, spelling: Spelling, clock: Clock) -> None:
        self.connection = connection
        """SQLAlchemy's connection, for SQL that shall be kept or dropped together with ours."""
        self.spelling = spelling
        self._clock = clock

    @property
    def dialect(self) -> Dialect:
        return self.spelling.dialect

    def rows(self, statement: Statement, **given: Any) -> Sequence[Any]:
        """All rows that the statement gives: tuples whose columns are attributes as well."""
        return self._execute(statement, given).all()

    def row(self, statement: Statement, **given: Any) -> Any:
        """The first row, or None."""
        return self._execute(statement, given).first()

    def run(self, statement: Statement, **given: Any) -> int:
        """How many rows were changed."""
        return self._execute(statement, given).rowcount

    def _execute(self, statement: Statement, given: dict[str, Any]) -> CursorResult[Any]:
        if statement.timed:
            given["now_ms"] = self._clock.now()
        return self.connection.execute(statement.text, given)
