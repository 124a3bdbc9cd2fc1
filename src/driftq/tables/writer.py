"""The tables of all topics that have one, brought up to date by a round.

Rows are made from the stored messages by their place in the partition, so that the next round finishes what a
killed round left undone, and nothing is written twice. Rows are dropped with their messages.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from itertools import chain

from driftq.core.records import Record
from driftq.core.state import State, Topic
from driftq.log.files import Folder
from driftq.storage.inspect import read_chunk
from driftq.tables.folder import TableFolder
from driftq.tables.reader import TableFile
from driftq.tables.rows import columns

ROWS_MAX = 200_000
SMALL_FILES_MAX = 8
SMALL_ROWS = 100_000

_HINT = "install driftq[parquet]"


class Tables:
    """Brings the tables of all topics that have one up to date."""

    def __init__(self, path: str, folder: Folder) -> None:
        self._path = path
        self._folder = folder

    def see(self, state: State, record: Record, payload: memoryview, blob_at: int) -> None:
        """Rows are made from the stored messages when all records are folded."""

    def finish(self, state: State, *, upto: int) -> None:
        wanted = {name: topic for name, topic in state.topics.items() if topic.options.table}
        try:
            for name, topic in wanted.items():
                table = TableFolder(os.path.join(self._path, name))
                TableWriter(table, self._folder, topic).bring_up_to_date(state.last_at)
        except ImportError as missing:
            sys.stderr.write(
                f"{len(wanted)} topics should be tables, but {missing.name} is missing: {_HINT}\n"
            )
        if os.path.isdir(self._path):
            for name in set(os.listdir(self._path)) - set(wanted):
                path = os.path.join(self._path, name)
                if os.path.isdir(path):
                    TableFolder(path).remove()


class TableWriter:
    """One topic's table."""

    def __init__(self, table: TableFolder, folder: Folder, topic: Topic) -> None:
        self._table = table
        self._folder = folder
        self._topic = topic

    def bring_up_to_date(self, now: int) -> None:
        """Write new rows, drop the rows of dropped messages, merge small files."""
        manifest = self._table.open(self._topic.name, self._topic.id, now=now)
        files: list[TableFile] = []
        for number in range(len(self._topic.partitions)):
            mine = [file for file in manifest.files if file.partition == number]
            index = self._topic.partitions[number].index
            mine = [file for file in mine if file.last_offset >= index.first_offset]
            mine += self._write_new(number, mine)
            files += self._compact(number, mine)
        if files != manifest.files:
            self._table.publish(manifest, files, now=now)

    def _write_new(self, number: int, existing: list[TableFile]) -> Iterator[TableFile]:
        index = self._topic.partitions[number].index
        start = index.first_ordinal_from(existing[-1].last_offset + 1) if existing else index.first
        chunks = [chunk for chunk in index.chunks if chunk.end > start]
        waiting: list[tuple[int, bytes]] = []
        for message in chain.from_iterable(read_chunk(self._folder, one, first=start) for one in chunks):
            waiting.append(message)
            if len(waiting) == ROWS_MAX:
                yield self._write(number, waiting)
                waiting = []
        if waiting:
            yield self._write(number, waiting)

    def _write(self, number: int, messages: list[tuple[int, bytes]]) -> TableFile:
        from driftq.tables.parquet import write_rows

        made = columns(self._topic.name, number, messages)
        return self._table.put(number, messages[0][0], messages[-1][0], lambda path: write_rows(path, made))

    def _compact(self, number: int, files: list[TableFile]) -> list[TableFile]:
        """Merge a run of small files, when there are many."""
        small = [file for file in files if file.rows < SMALL_ROWS]
        if len(small) < SMALL_FILES_MAX:
            return files
        from driftq.tables.parquet import join_files

        made: list[TableFile] = []
        run: list[TableFile] = []

        def close_run() -> None:
            if len(run) > 1:
                parts = [self._table.path_of(file) for file in run]
                first, last = run[0].first_offset, run[-1].last_offset
                made.append(self._table.put(number, first, last, lambda path: join_files(path, parts)))
            else:
                made.extend(run)
            run.clear()

        for file in files:
            if file.rows >= SMALL_ROWS or sum(one.rows for one in run) + file.rows > ROWS_MAX:
                close_run()
            if file.rows >= SMALL_ROWS:
                made.append(file)
            else:
                run.append(file)
        close_run()
        return made
