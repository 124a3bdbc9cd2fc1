"""From the lines of a file to values and keys: plain lines, JSON, or CSV."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from typing import Any, Literal, NamedTuple

Format = Literal["lines", "ndjson", "csv"]


class InputRow(NamedTuple):
    value: str
    key: str | None
    """None: the row has no key of its own."""


class RowRefused(Exception):
    """A line that does not fit its format; nothing after it is read."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(f"line {line}: {problem}")
        self.line = line
        self.problem = problem


class InputRows:
    """The rows of a file; stops at one that cannot be read, and sets `problem`."""

    def __init__(self, lines: Iterable[str], kind: Format, *, key_field: str | None) -> None:
        self._rows = read_rows(lines, kind, key_field=key_field)
        self.problem: str | None = None

    def __iter__(self) -> Iterator[InputRow]:
        try:
            yield from self._rows
        except RowRefused as refused:
            self.problem = str(refused)


def read_rows(lines: Iterable[str], kind: Format, *, key_field: str | None) -> Iterator[InputRow]:
    """A row for each message; raises RowRefused."""
    if kind == "lines":
        return (InputRow(line, None) for line in lines)
    return _read_json(lines, key_field) if kind == "ndjson" else _read_table(lines, key_field)


def _read_json(lines: Iterable[str], key_field: str | None) -> Iterator[InputRow]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            content = json.loads(line)
        except ValueError as error:
            raise RowRefused(number, f"not JSON: {error}") from error
        yield InputRow(_compact(content), _key(content, key_field, number))


def _read_table(lines: Iterable[str], key_field: str | None) -> Iterator[InputRow]:
    rows = csv.DictReader(line + "\n" for line in lines)
    for row in rows:
        if None in row or None in row.values():
            raise RowRefused(
                rows.line_num, f"does not have the {len(rows.fieldnames or ())} columns of the header"
            )
        yield InputRow(_compact(row), _key(row, key_field, rows.line_num))


def _key(content: Any, key_field: str | None, number: int) -> str | None:
    if key_field is None:
        return None
    if not isinstance(content, dict) or content.get(key_field) is None:
        raise RowRefused(number, f"has no field {key_field!r} for the key")
    found = content[key_field]
    return found if isinstance(found, str) else _compact(found)


def _compact(content: Any) -> str:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))
