"""Compaction: live messages of files that are mostly dead are copied into one file of kept messages.

A message is copied in its stored form, with its checksum, after that checksum was verified. The file begins
with a header like a segment's and has no frames.
"""

from __future__ import annotations

from array import array

from driftq.errors import LogCorrupt
from driftq.housekeeping.catalog import DataFile, Holding
from driftq.housekeeping.indexing import IndexWriter
from driftq.log.files import File, Folder
from driftq.log.segment import SEGMENT_HEADER_BYTES, encode_segment_header, file_name
from driftq.storage.entry import is_intact
from driftq.storage.inspect import read_entries_at

_WRITE_BYTES = 1 << 20


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
    """Copy one holding; returns the position after it."""
    chunk = holding.chunk
    skip = holding.first - chunk.first
    packed = chunk.places[skip:]
    places = array("Q")
    waiting: list[bytes] = []
    size = 0
    for slot, entry in read_entries_at(folder, source, packed):
        if not is_intact(entry):
            raise LogCorrupt(
                f"{folder.path}/{file_name(source)}",
                position=packed[slot] >> 32,
                problem="a message does not match its checksum",
                folder=folder.path,
            )
        places.append((position + size) << 32 | (packed[slot] & 0xFFFFFFFF))
        waiting.append(entry)
        size += len(entry)
        if size >= _WRITE_BYTES:
            target.write_at(position, waiting)
            position += size
            waiting, size = [], 0
    if waiting:
        target.write_at(position, waiting)
    writer.add(
        (holding.topic, holding.partition, holding.first, chunk.offsets[skip:], places, chunk.ends[skip:])
    )
    return position + size
