"""Topics as tables, from a reader's side: which Parquet files make up a table at this moment.

    DIR/tables/<topic>/files/<partition>-<first offset>-<last offset>.parquet    written once, never changed
    DIR/tables/<topic>/generations/<number>/<the same names>                     links to those that count
    DIR/tables/<topic>/generations/<number>/_manifest.json                       what they hold
    DIR/tables/<topic>/current        ─▶ generations/<number>
    DIR/tables/<topic>/manifest.json  ─▶ current/_manifest.json

A generation is complete before one rename points `current` at it, and it never changes: a reader that lists
the folder behind `current` always sees a whole table, and so does one that reads the manifest.
"""

from __future__ import annotations

import os

import msgspec

MANIFEST = "manifest.json"
CURRENT = "current"
FILES = "files"
GENERATIONS = "generations"
LISTED = f"_{MANIFEST}"
"""The manifest's name beside the files: Parquet readers ignore names that begin with an underscore."""


class TableFile(msgspec.Struct, frozen=True):
    """One Parquet file: rows of one partition, in the order of their offsets."""

    name: str
    """Its path within the table's folder."""
    partition: int
    first_offset: int
    last_offset: int
    rows: int


class TableManifest(msgspec.Struct):
    """What a reader may see."""

    topic: str
    topic_id: int
    round: int = 0
    """The number of the generation."""
    files: list[TableFile] = msgspec.field(default_factory=list)
    gone: list[tuple[int, str]] = msgspec.field(default_factory=list)
    """Replaced files and generations, each with the time of its replacement: readers may still use them."""


_decode = msgspec.json.Decoder(TableManifest).decode


def read_table(path: str | os.PathLike[str]) -> TableManifest | None:
    """The manifest of the table in this folder; None when there is none."""
    try:
        with open(os.path.join(path, CURRENT, LISTED), "rb") as file:
            return _decode(file.read())
    except (FileNotFoundError, NotADirectoryError):
        return None


def table_files(path: str | os.PathLike[str]) -> list[str]:
    """The paths of the Parquet files that make up the table, as of now."""
    manifest = read_table(path)
    return [os.path.join(path, file.name) for file in manifest.files] if manifest else []
