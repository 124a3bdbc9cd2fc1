"""Named queries, kept in .sql files beside the package that uses them.

A file holds any number of queries, each under a line `-- name: finish`, or `-- name: finish (postgres)`
where one text cannot serve both engines. Parameters are written :like_this; the marks in braces are those
of `driftq.sql.dialect`.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files

from sqlalchemy import TextClause, text

from driftq.sql.dialect import Dialect, SqlRenderer

_HEAD = re.compile(r"^-- name: ([a-z_]+)(?: \((sqlite|postgres)\))?$", re.MULTILINE)
_COMMENT = re.compile(r"^\s*--.*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Statement:
    """One query, rendered for one database. `timed` means that it takes the time as a parameter."""

    name: str
    text: TextClause
    timed: bool

    @classmethod
    def of(cls, name: str, source: str, renderer: SqlRenderer) -> "Statement":
        rendered = renderer.render(without_comments(source)).strip().rstrip(";")
        return cls(name, text(rendered), ":now_ms" in rendered)


class Queries(Mapping[str, Statement]):
    """The queries of one package for one database, by name."""

    def __init__(self, statements: Mapping[str, Statement]) -> None:
        self._statements = statements

    @classmethod
    def load(cls, package: str, renderer: SqlRenderer) -> "Queries":
        """Every query in the package's folder `queries`."""
        statements: dict[str, Statement] = {}
        folder = files(package) / "queries"
        for file in sorted(folder.iterdir(), key=lambda entry: entry.name):
            if not file.name.endswith(".sql"):
                continue
            for name, dialect, source in split_queries(file.read_text(encoding="utf-8")):
                if dialect in (None, renderer.dialect):
                    if name in statements:
                        raise ValueError(f"{package}: two queries have the name {name}")
                    statements[name] = Statement.of(name, source, renderer)
        return cls(statements)

    def __getitem__(self, name: str) -> Statement:
        return self._statements[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._statements)

    def __len__(self) -> int:
        return len(self._statements)


def split_queries(source: str) -> Iterator[tuple[str, Dialect | None, str]]:
    """Name, engine (None: both) and text of each query in a file."""
    heads = list(_HEAD.finditer(source))
    for head, following in zip(heads, [*heads[1:], None], strict=True):
        body = source[head.end() : following.start() if following else len(source)]
        yield head[1], Dialect(head[2]) if head[2] else None, body


def without_comments(source: str) -> str:
    """The text without comment lines, in which a colon would look like a parameter."""
    return _COMMENT.sub("", source)
