"""Live messages leave files that are mostly dead: copied one behind the other into a file of kept messages.

A message is copied as it is stored, checksum and all, after that checksum was verified. The file begins with
a header like a segment's and has no frames.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from driftq.core.index import LENGTH_MASK
from driftq.errors import LogCorrupt
from driftq.housekeeping.catalog import DataFile, Holding
from driftq.housekeeping.indexing import IndexWriter
from driftq.log.files import File, Folder
from driftq.log.segment import SEGMENT_HEADER_BYTES, encode_segment_header, file_name
from driftq.server.entry import is_whole

_READ_BYTES = 1 << 20
_GAP_BYTES = 4_096


def copy_forward(folder: Folder, sources: list[DataFile], *, number: int, index: str) -> None:
    """Write the data file `number` with everything that is live in the sources, and its index file."""
    target = folder.create(file_name(number))
    try:
        target.write_at(0, [encode_segment_header(number=number, first_lsn=0)])
        writer = IndexWriter()
        position = SEGMENT_HEADER_BYTES
        holdings = sorted(
            ((holding, source) for source in sources for holding in source.holdings),
            key=lambda one: (one[0].topic, one[0].partition, one[0].chunk.first),
        )
        for holding, source in holdings:
            position = _copy(folder, holding, source.number, target, position, writer)
        target.sync()
    finally:
        target.close()
    writer.write(folder, index)


def _copy(
    folder: Folder, holding: Holding, source: int, target: File, position: int, writer: IndexWriter
) -> int:
    """Copy one holding; the position behind it."""
    chunk = holding.chunk
    skip = holding.first - chunk.first
    packed = chunk.places[skip:]
    places = array("Q")
    for octets, start, slots in _pieces(folder, source, packed):
        entries: list[bytes] = []
        for slot in slots:
            at = (packed[slot] >> 32) - start
            entry = octets[at : at + (packed[slot] & LENGTH_MASK)]
            if not is_whole(entry):
                path = f"{folder.path}/{file_name(source)}"
                raise LogCorrupt(
                    path,
                    position=packed[slot] >> 32,
                    problem="a message does not match its checksum",
                    folder=folder.path,
                )
            entries.append(entry)
            places.append(position << 32 | (packed[slot] & 0xFFFFFFFF))
            position += len(entry)
        target.write_at(position - sum(map(len, entries)), entries)
    writer.add(
        (holding.topic, holding.partition, holding.first, chunk.offsets[skip:], places, chunk.ends[skip:])
    )
    return position


def _pieces(folder: Folder, source: int, packed: "array[int] | memoryview") -> Iterator[tuple[bytes, int, range]]:
    """Bytes of neighbours that are read with one call: the bytes, their position, the slots they hold."""
    file = folder.open(file_name(source))
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
            yield file.read_at(start, end - start), start, range(first, stop)
            first = stop
    finally:
        file.close()
