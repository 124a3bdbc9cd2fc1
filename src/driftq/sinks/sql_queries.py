"""The statements of one read model: its name is part of its tables' names."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from driftq.sql import Dialect, Queries, SqlRenderer, Statement
from driftq.sql.queries import split_queries

SHARED = ("make_projections", "make_positions")
OWN = ("make_rows", "make_waiting")
_PARTS = ("staged_columns", "staged", "newest", "by_key")
"""Of the statements of staging."""


def rows_table(projection: str) -> str:
    """With tombstones and the columns of the registry; the view for readers has the projection's own name."""
    return f"{projection}__rows"


def waiting_table(projection: str) -> str:
    return f"{projection}__waiting"


def staged_rows_table(stage: str) -> str:
    """Beside the staging table: the changes that PostgreSQL has accepted when they were staged."""
    return f"{stage}_rows"


def model_queries(projection: str, renderer: SqlRenderer, *, renamed: str = "") -> Queries:
    """All statements; `renamed` is the projection whose tables these will become."""
    marks = _tables(projection, renderer) | {
        "{new_model}": f'"{rows_table(renamed)}"',
        "{new_waiting}": f'"{waiting_table(renamed)}"',
        "{json}": "TEXT" if renderer.dialect is Dialect.SQLITE else "json",
        "{schema}": f"'{renderer.schema}'",
    }
    return _rendered("read_model", marks, renderer)


def staging_queries(projection: str, stage: str, renderer: SqlRenderer) -> Queries:
    """The statements of one batch that tasks write; `stage` is its table, beside that of its rows."""
    parts = {name: source for name, _, source in split_queries(_source("staging"))}
    marks = {f"{{{part}}}": parts[part].partition(";")[0] for part in _PARTS}
    tables = {
        "{stage}": quoted(stage, renderer),
        "{rows}": quoted(staged_rows_table(stage), renderer),
        "{new_model}": f'"{rows_table(projection)}"',
    }
    return _rendered("staging", marks | _tables(projection, renderer) | tables, renderer)


def quoted(table: str, renderer: SqlRenderer) -> str:
    return f'"{table}"' if renderer.dialect is Dialect.SQLITE else f'"{renderer.schema}"."{table}"'


def _tables(projection: str, renderer: SqlRenderer) -> dict[str, str]:
    names = {"model": rows_table(projection), "waiting": waiting_table(projection), "view": projection}
    return {f"{{{mark}}}": quoted(table, renderer) for mark, table in names.items()}


def _rendered(file: str, marks: dict[str, str], renderer: SqlRenderer) -> Queries:
    statements: dict[str, Statement] = {}
    for name, dialect, source in split_queries(_source(file)):
        if dialect in (None, renderer.dialect):
            text = source
            for mark, spelled in marks.items():
                text = text.replace(mark, spelled)
            statements[name] = Statement.of(name, text, renderer)
    return Queries(statements)


@cache
def _source(file: str) -> str:
    return (files("driftq.sinks") / "queries" / f"{file}.sql").read_text(encoding="utf-8")
