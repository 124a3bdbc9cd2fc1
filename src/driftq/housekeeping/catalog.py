"""Which file holds which stored messages, and how much of each file is still needed."""

from __future__ import annotations

from dataclasses import dataclass, field

from driftq.core.index import Chunk
from driftq.core.state import State
from driftq.log.files import Folder
from driftq.log.segment import KEPT, file_name

ENTRY_OVERHEAD_BYTES = 40
"""Of a stored form, besides key and value: checksum, time, JSON around them."""


@dataclass(slots=True)
class Holding:
    """Kept messages of one partition in one file."""

    topic: int
    partition: int
    chunk: Chunk
    first: int
    """The oldest ordinal of the chunk that is kept."""

    @property
    def count(self) -> int:
        return self.chunk.end - self.first

    def live_bytes(self, bytes_before: int) -> int:
        """About how much of the file they take up; `bytes_before` is of the partition, before `first`."""
        return self.chunk.ends[-1] - bytes_before + self.count * ENTRY_OVERHEAD_BYTES


@dataclass(slots=True)
class DataFile:
    """A segment or a file of kept messages, with the messages that still need it."""

    number: int
    size_bytes: int
    live_bytes: int = 0
    holdings: list[Holding] = field(default_factory=list)

    @property
    def is_segment(self) -> bool:
        return self.number < KEPT

    @property
    def live_share(self) -> float:
        return min(1.0, self.live_bytes / max(1, self.size_bytes))


def inventory(folder: Folder, state: State, *, upto: int) -> dict[int, DataFile]:
    """Every file with kept messages, without the segments after `upto`."""
    files: dict[int, DataFile] = {}
    for topic in state.topics_by_id.values():
        for number, part in enumerate(topic.partitions):
            index = part.index
            for chunk in index.chunks:
                if upto < chunk.segment < KEPT:
                    continue
                file = files.get(chunk.segment)
                if file is None:
                    size = folder.open(file_name(chunk.segment)).size()
                    file = files[chunk.segment] = DataFile(chunk.segment, size)
                holding = Holding(topic.id, number, chunk, max(chunk.first, index.first))
                file.holdings.append(holding)
                file.live_bytes += holding.live_bytes(index.bytes_upto(holding.first))
    return files


def choose_sources(files: dict[int, DataFile], *, live_share_min: float, small_bytes: int) -> list[DataFile]:
    """The files whose messages should move: those mostly dead, and small ones when there are many."""
    chosen = [file for file in files.values() if file.live_share < live_share_min]
    small = [
        file for file in files.values() if file.live_share >= live_share_min and file.size_bytes < small_bytes
    ]
    if len(small) >= SMALL_FILES_MAX:
        chosen += small
    return sorted(chosen, key=lambda file: file.number)


SMALL_FILES_MAX = 8
