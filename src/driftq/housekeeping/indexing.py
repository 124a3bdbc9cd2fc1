"""Index files: where each message of one data file is, as arrays that are used in place."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator

from driftq.core.index import Numbers
from driftq.log.arrays import write_arrays
from driftq.log.files import Bytes, Folder
from driftq.storage.restore import IndexRun, encode_runs

IndexEntries = tuple[int, int, int, Numbers, Numbers, Numbers]
"""Topic, partition, first ordinal, offsets, places, ends."""


class IndexWriter:
    """Collects ranges of partitions and writes them as one file."""

    def __init__(self) -> None:
        self._runs: list[IndexRun] = []
        self._offsets = array("Q")
        self._places = array("Q")
        self._ends = array("Q")

    def add(self, entries: IndexEntries) -> None:
        """Add a range; one that follows the last of the same partition without a gap is merged into it."""
        topic, partition, first, offsets, places, ends = entries
        start, count = len(self._offsets), len(offsets)
        self._offsets.extend(offsets)
        self._places.extend(places)
        self._ends.extend(ends)
        last = self._runs[-1] if self._runs else None
        if last is not None and (last.topic, last.partition, last.first + last.count) == (
            topic,
            partition,
            first,
        ):
            self._runs[-1] = IndexRun(topic, partition, last.first, last.start, last.count + count)
        else:
            self._runs.append(IndexRun(topic, partition, first, start, count))

    def write(self, folder: Folder, name: str) -> None:
        write_arrays(folder, name, self._parts())

    def _parts(self) -> Iterator[tuple[str, Bytes]]:
        yield "runs", encode_runs(self._runs)
        yield "offsets", memoryview(self._offsets)
        yield "places", memoryview(self._places)
        yield "ends", memoryview(self._ends)


def write_index(folder: Folder, name: str, runs: Iterable[IndexEntries]) -> None:
    writer = IndexWriter()
    for entries in runs:
        writer.add(entries)
    writer.write(folder, name)
