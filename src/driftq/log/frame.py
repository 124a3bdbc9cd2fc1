"""The frame: the bytes of one commit, with a checksum of the header and one of the payload.

    magic   4 bytes   ff 44 51 fe, which occurs in no UTF-8 text
    length  u32       payload bytes, 1 … MAX_PAYLOAD
    lsn     u64       1, 2, 3 …: one more with each frame, across segments
    crc     u32       crc32c of the payload
    check   u32       crc32c of the 20 bytes before it

All little-endian. The header has its own checksum so that a damaged length is seen as damage: trusted, it
would make the frames behind it look like a torn tail.

A frame is laid out before it is written: `Layout` fixes its segment and position, so that decisions can name
places in it.
"""

from __future__ import annotations

from collections import deque
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from driftq.log.segment import SEGMENT_HEADER_BYTES

MAGIC = b"\xffDQ\xfe"
MAX_PAYLOAD = 32 * 1024 * 1024

_FACTS = Struct("<4sIQI")
_CHECK = Struct("<I")
HEADER_BYTES = _FACTS.size + _CHECK.size

# From here on one copy is cheaper than a checksum call and a vector entry for each part.
_JOIN_FROM_PARTS = 4


class LogEnd(NamedTuple):
    """The position after a whole frame, where the next one starts."""

    segment: int
    position: int
    lsn: int


NOTHING = LogEnd(segment=0, position=0, lsn=0)


class Header(NamedTuple):
    length: int
    lsn: int
    crc: int


class Frame:
    """An open frame: laid out before it is written, so that positions are known when records are decided.

    `position` is that of the payload's first byte in the segment file; `capacity` is how many payload bytes
    fit and shrinks to `size` when the frame is finished.
    """

    __slots__ = ("_parts", "capacity", "end", "lsn", "position", "records", "segment", "size")

    def __init__(self, *, segment: int, lsn: int, position: int, capacity: int) -> None:
        self.segment = segment
        self.lsn = lsn
        self.position = position
        self.size = 0
        self.records = 0
        """The number of appends, one for each record."""
        self.capacity = capacity
        self.end = NOTHING
        """Behind its last byte, once it is finished."""
        self._parts: list[bytes] = []

    def append(self, *parts: bytes) -> int:
        """Add the parts; returns the first one's position in the file. ValueError if they do not fit."""
        before = self.size
        size = before
        for part in parts:
            size += len(part)
        if size > self.capacity:
            raise ValueError(f"{size} bytes do not fit into a frame of {self.capacity}")
        self._parts += parts
        self.size = size
        self.records += 1
        return self.position + before

    def encoded(self) -> list[bytes]:
        """Header and payload, to be written `HEADER_BYTES` before `position`."""
        parts = self._parts
        if len(parts) >= _JOIN_FROM_PARTS:
            parts = [b"".join(parts)]
        crc = 0
        for part in parts:
            crc = crc32c(part, crc)
        return [_header(self.size, self.lsn, crc), *parts]


def encode_header(header: Header) -> bytes:
    return _header(*header)


def _header(length: int, lsn: int, crc: int) -> bytes:
    facts = _FACTS.pack(MAGIC, length, lsn, crc)
    return facts + _CHECK.pack(crc32c(facts))


def decode_header(chunk: bytes, at: int) -> Header | None:
    """The header at this place of the chunk; None if it is damaged. The chunk must reach to its end."""
    magic, length, lsn, crc = _FACTS.unpack_from(chunk, at)
    if magic != MAGIC or not 0 < length <= MAX_PAYLOAD:
        return None
    (check,) = _CHECK.unpack_from(chunk, at + _FACTS.size)
    if check != crc32c(chunk[at : at + _FACTS.size]):
        return None
    return Header(length, lsn, crc)


class Layout:
    """Lays frames out one behind the other, ahead of the writer; it touches no file.

    `waiting` holds the finished frames in order: this side adds at the right, the writer takes from the left.
    """

    def __init__(self, segment_bytes: int, *, segment_records: int) -> None:
        self._segment_bytes = segment_bytes
        self._segment_records = segment_records
        self._records = 0
        """In the segment that the next frame may go to."""
        self._end = NOTHING
        self._open: Frame | None = None
        self.waiting: deque[Frame] = deque()

    def start_over(self, end: LogEnd, *, records: int = 0) -> None:
        """Forget every frame that was laid out; the next one follows `end`, after that many records."""
        self._end = end
        self._records = records
        self._open = None
        self.waiting.clear()

    def begin(self, size: int) -> Frame:
        if self._open is not None:
            raise ValueError(f"frame {self._open.lsn} is still open")
        if size > MAX_PAYLOAD:
            raise ValueError(f"{size} bytes do not fit into a frame of {MAX_PAYLOAD}")
        segment, start, lsn = self._end
        size = max(size, 1)
        room = self._segment_bytes - start - HEADER_BYTES
        full = room < size or self._records >= self._segment_records
        if segment == 0 or (full and start > SEGMENT_HEADER_BYTES):
            segment += 1
            self._records = 0
            start = SEGMENT_HEADER_BYTES
            room = self._segment_bytes - start - HEADER_BYTES
        capacity = min(max(size, room), MAX_PAYLOAD)
        self._open = Frame(segment=segment, lsn=lsn + 1, position=start + HEADER_BYTES, capacity=capacity)
        return self._open

    def finish(self, frame: Frame) -> None:
        if frame is not self._open:
            raise ValueError(f"frame {frame.lsn} is not the open one")
        self._open = None
        frame.capacity = frame.size
        if frame.size:
            self._end = frame.end = LogEnd(frame.segment, frame.position + frame.size, frame.lsn)
            self._records += frame.records
            self.waiting.append(frame)

    def roll(self) -> None:
        """The next frame starts a new segment, unless the last one has none yet."""
        self._records = self._segment_records
