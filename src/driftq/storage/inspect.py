"""Reading kept messages where the index says they are, away from any server."""

from __future__ import annotations

from collections.abc import Iterator

from driftq.core.index import LENGTH_MASK, Chunk, Numbers
from driftq.core.state import State
from driftq.log.files import Folder
from driftq.log.segment import file_name
from driftq.storage.entry import is_intact

_READ_BYTES = 1 << 20
_GAP_BYTES = 4_096


def read_entries_at(folder: Folder, number: int, packed: Numbers) -> Iterator[tuple[int, bytes]]:
    """The stored forms at these places of a data file, each with its slot; neighbours are read at once."""
    file = folder.open(file_name(number))
    try:
        first = 0
        while first < len(packed):
            start = packed[first] >> 32
            end = start + (packed[first] & LENGTH_MASK)
            stop = first + 1
            while stop < len(packed):
                begin = packed[stop] >> 32
                behind = begin + (packed[stop] & LENGTH_MASK)
                if not 0 <= begin - end <= _GAP_BYTES or behind - start > _READ_BYTES:
                    break
                end = behind
                stop += 1
            octets = file.read_at(start, end - start)
            for slot in range(first, stop):
                at = (packed[slot] >> 32) - start
                yield slot, octets[at : at + (packed[slot] & LENGTH_MASK)]
            first = stop
    finally:
        file.close()


def read_chunk(folder: Folder, chunk: Chunk, *, first: int) -> Iterator[tuple[int, bytes]]:
    """Offset and stored form of the messages of a chunk from an ordinal on."""
    skip = max(0, first - chunk.first)
    for slot, entry in read_entries_at(folder, chunk.segment, chunk.places[skip:]):
        yield chunk.offsets[skip + slot], entry


def messages_damaged(folder: Folder, state: State) -> Iterator[tuple[str, int]]:
    """File and position of every kept message that is not what was written."""
    for topic in state.topics.values():
        for part in topic.partitions:
            for chunk in part.index.chunks:
                skip = max(0, part.index.first - chunk.first)
                packed = chunk.places[skip:]
                path = f"{folder.path}/{file_name(chunk.segment)}"
                try:
                    for slot, entry in read_entries_at(folder, chunk.segment, packed):
                        if not is_intact(entry):
                            yield path, packed[slot] >> 32
                except FileNotFoundError:
                    yield path, 0
