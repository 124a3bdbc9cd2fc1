"""The statements of one read model: its name is part of its tables' names."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from driftq.sql import Dialect, Queries, SqlRenderer, Statement
from driftq.sql.queries import split_queries

SHARED = ("make_projections", "make_positions", "make_dead_letters")
OWN = ("make_rows", "make_waiting")


def rows_table(projection: str) -> str:
    """With tombstones and the columns of the registry; the view for readers has the projection's own name."""
    return f"{projection}__rows"


def waiting_table(projection: str) -> str:
    return f"{projection}__waiting"


def model_queries(projection: str, renderer: SqlRenderer, *, renamed: str = "") -> Queries:
    """All statements; `renamed` is the projection whose tables these will become."""
    tables = {"model": rows_table(projection), "waiting": waiting_table(projection), "view": projection}
    own = {f"{{{mark}}}": _quoted(table, renderer) for mark, table in tables.items()}
    own |= {"{new_model}": f'"{rows_table(renamed)}"', "{new_waiting}": f'"{waiting_table(renamed)}"'}
    own |= {
        "{json}": "TEXT" if renderer.dialect is Dialect.SQLITE else "json",
        "{schema}": f"'{renderer.schema}'",
    }
    statements: dict[str, Statement] = {}
    for name, dialect, source in split_queries(_source()):
        if dialect in (None, renderer.dialect):
            text = source
            for mark, spelled in own.items():
                text = text.replace(mark, spelled)
            statements[name] = Statement.of(name, text, renderer)
    return Queries(statements)


def _quoted(table: str, renderer: SqlRenderer) -> str:
    return f'"{table}"' if renderer.dialect is Dialect.SQLITE else f'"{renderer.schema}"."{table}"'


@cache
def _source() -> str:
    return (files("driftq.sinks") / "queries" / "read_model.sql").read_text(encoding="utf-8")
