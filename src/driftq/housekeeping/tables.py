"""Topics as tables: per partition a row of Parquet files, named by a manifest that is renamed into place.

    DIR/tables/<topic>/manifest.json
    DIR/tables/<topic>/<partition>-<first offset>-<last offset>.parquet

Rows are taken from the kept messages by their place in the partition, so that what a killed round has left
undone the next one does, and nothing is written twice. A file that the manifest does not name does not count
and is removed later. Rows go when their messages go.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from itertools import chain

import msgspec

from driftq.core.records import Record
from driftq.core.state import State, Topic
from driftq.housekeeping.inspection import read_chunk
from driftq.housekeeping.rows import columns
from driftq.log.files import Folder

MANIFEST = "manifest.json"
ROWS_MAX = 200_000
SMALL_FILES_MAX = 8
SMALL_ROWS = 100_000
_GRACE_ROUNDS = 2

_HINT = "install driftq[tables]"


class TableFile(msgspec.Struct, frozen=True):
    """One Parquet file: rows of one partition, in the order of their offsets."""

    name: str
    partition: int
    first_offset: int
    last_offset: int
    rows: int


class TableManifest(msgspec.Struct):
    """What a reader may see."""

    topic: str
    topic_id: int
    round: int = 0
    files: list[TableFile] = msgspec.field(default_factory=list)
    gone: list[tuple[int, str]] = msgspec.field(default_factory=list)
    """Files that no longer count, with the round that replaced them: readers may still be at them."""


_decode = msgspec.json.Decoder(TableManifest).decode


def read_table(path: str) -> TableManifest | None:
    """The manifest of the table in this folder; None when there is none."""
    try:
        with open(os.path.join(path, MANIFEST), "rb") as file:
            return _decode(file.read())
    except FileNotFoundError:
        return None


def table_files(path: str) -> list[str]:
    """The paths of the Parquet files that make up the table, as of now."""
    manifest = read_table(path)
    return [os.path.join(path, file.name) for file in manifest.files] if manifest else []


class Tables:
    """Brings the tables of all topics that have one up to date."""

    def __init__(self, path: str, folder: Folder) -> None:
        self._path = path
        self._folder = folder

    def see(self, state: State, record: Record, payload: memoryview, blob_at: int) -> None:
        """Rows are taken from what is kept when all records are folded."""

    def finish(self, state: State, *, upto: int) -> None:
        wanted = {name: topic for name, topic in state.topics.items() if topic.options.table}
        try:
            for name, topic in wanted.items():
                TableWriter(os.path.join(self._path, name), self._folder, topic).bring_up_to_date()
        except ImportError as missing:
            sys.stderr.write(
                f"{len(wanted)} topics should be tables, but {missing.name} is missing: {_HINT}\n"
            )
        if os.path.isdir(self._path):
            for name in set(os.listdir(self._path)) - set(wanted):
                _remove_table(os.path.join(self._path, name))


class TableWriter:
    """One topic's table."""

    def __init__(self, path: str, folder: Folder, topic: Topic) -> None:
        self._path = path
        self._folder = folder
        self._topic = topic

    def bring_up_to_date(self) -> None:
        """Write what is new, drop what is no longer kept, put small files together."""
        os.makedirs(self._path, exist_ok=True)
        manifest = read_table(self._path)
        if manifest is None or manifest.topic_id != self._topic.id:
            manifest = TableManifest(topic=self._topic.name, topic_id=self._topic.id)
        before = [file.name for file in manifest.files]
        self._remove_unnamed(manifest)
        files: list[TableFile] = []
        for number in range(len(self._topic.partitions)):
            mine = [file for file in manifest.files if file.partition == number]
            index = self._topic.partitions[number].index
            mine = [file for file in mine if file.last_offset >= index.first_offset]
            mine += self._write_new(number, mine)
            files += self._compact(number, mine)
        names = {file.name for file in files}
        if [file.name for file in files] == before and not manifest.gone:
            return
        manifest.round += 1
        manifest.files = files
        manifest.gone = [
            (since, name) for since, name in manifest.gone if manifest.round - since < _GRACE_ROUNDS
        ] + [(manifest.round, name) for name in before if name not in names]
        _publish(self._path, manifest)

    def _write_new(self, number: int, known: list[TableFile]) -> Iterator[TableFile]:
        index = self._topic.partitions[number].index
        start = index.first_ordinal_from(known[-1].last_offset + 1) if known else index.first
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
        from driftq.housekeeping.parquet import write_rows

        made = columns(self._topic.name, number, messages)
        return self._put(number, messages[0][0], messages[-1][0], lambda path: write_rows(path, made))

    def _put(self, number: int, first: int, last: int, write: Callable[[str], int]) -> TableFile:
        name = f"{number}-{first}-{last}.parquet"
        staged = os.path.join(self._path, f"_{name}")
        rows = write(staged)
        _sync(staged)
        os.rename(staged, os.path.join(self._path, name))
        return TableFile(name, number, first, last, rows)

    def _compact(self, number: int, files: list[TableFile]) -> list[TableFile]:
        """Put a run of small files together, when there are many."""
        small = [file for file in files if file.rows < SMALL_ROWS]
        if len(small) < SMALL_FILES_MAX:
            return files
        from driftq.housekeeping.parquet import join_files

        made: list[TableFile] = []
        run: list[TableFile] = []

        def close_run() -> None:
            if len(run) > 1:
                parts = [os.path.join(self._path, file.name) for file in run]
                first, last = run[0].first_offset, run[-1].last_offset
                made.append(self._put(number, first, last, lambda path: join_files(path, parts)))
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

    def _remove_unnamed(self, manifest: TableManifest) -> None:
        """Files of a round that died, and those that were replaced a while ago."""
        kept = {file.name for file in manifest.files} | {name for _, name in manifest.gone} | {MANIFEST}
        for name in set(os.listdir(self._path)) - kept:
            os.unlink(os.path.join(self._path, name))


def _publish(path: str, manifest: TableManifest) -> None:
    staged = os.path.join(path, f"_{MANIFEST}")
    with open(staged, "wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(manifest), indent=1))
        file.flush()
        os.fsync(file.fileno())
    _sync(path)
    os.rename(staged, os.path.join(path, MANIFEST))
    _sync(path)


def _remove_table(path: str) -> None:
    """The topic is gone, or no longer a table: first what names the files, then the files."""
    if not os.path.isdir(path):
        return
    names = sorted(os.listdir(path), key=lambda name: name != MANIFEST)
    for name in names:
        os.unlink(os.path.join(path, name))
    os.rmdir(path)


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
