"""Reads a table again and again, the ways that users do, until its input ends; says how often it has changed.

Run with the table's folder. Whoever lists `current` by its name may find that a file was replaced before it
was opened, and lists again; all else has to work at the first try. A table is whole when no offset is there
twice and none is missing below the largest.
"""

import os
import select
import sys
from collections.abc import Callable

import duckdb

from driftq.tables.reader import table_files

PAUSE_S = 0.002


def by_glob(table: str) -> list[int]:
    while True:
        try:
            return _offsets(f"{table}/current/*.parquet")
        except duckdb.IOException:
            if not os.path.exists(f"{table}/current"):
                return []


def by_resolved_glob(table: str) -> list[int]:
    folder = os.path.realpath(f"{table}/current")
    return _offsets(f"{folder}/*.parquet") if os.path.exists(folder) else []


def by_manifest(table: str) -> list[int]:
    files = table_files(table)
    return _offsets(files) if files else []


def _offsets(files: str | list[str]) -> list[int]:
    found = duckdb.execute('SELECT "offset" FROM read_parquet(?) ORDER BY 1', [files])
    return [row[0] for row in found.fetchall()]


def main() -> None:
    table = sys.argv[1]
    ways: list[Callable[[str], list[int]]] = [by_glob, by_resolved_glob, by_manifest]
    duckdb.execute("SET threads = 1")
    seen = changes = 0
    print("reading", flush=True)
    while not select.select([sys.stdin], [], [], PAUSE_S)[0]:
        for read in ways:
            offsets = read(table)
            assert offsets == list(range(len(offsets))), f"{read.__name__}: {offsets}"
            assert len(offsets) >= seen, f"{read.__name__}: {len(offsets)} after {seen}"
            changes += len(offsets) > seen
            seen = len(offsets)
    print(changes, seen, flush=True)


if __name__ == "__main__":
    main()
