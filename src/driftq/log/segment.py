"""The segment: a numbered file of frames that starts with a header of its own.

    magic    8 bytes   "DriftQ", ff 00
    version  u32       of the format; a newer one is refused
    number   u64       of the segment, as in its name, from 1
    first    u64       lsn of the first frame
    zeros    32 bytes
    check    u32       crc32c of the 60 bytes before it

All little-endian; frames start at byte 64. The number and the first lsn let recovery tell a missing segment
or missing frames from a log that was started here.
"""

from __future__ import annotations

import errno
import re
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from driftq.log.files import File

FORMAT_VERSION = 1

_MAGIC = b"DriftQ\xff\x00"
_FACTS = Struct("<8sIQQ32x")
_CHECK = Struct("<I")
_NAME = re.compile(r"(\d{20})\.log", re.ASCII)
SEGMENT_HEADER_BYTES = _FACTS.size + _CHECK.size


class SegmentHeader(NamedTuple):
    version: int
    number: int
    first_lsn: int


def segment_name(number: int) -> str:
    return f"{number:020}.log"


KEPT = 1 << 40
"""Added to the number of a file of kept messages, so that a place in one looks like a place in a segment."""


def kept_name(number: int) -> str:
    return f"{number:020}.kept"


def file_name(number: int) -> str:
    """The name of the file that messages are read from: a segment, or a file of kept messages."""
    return segment_name(number) if number < KEPT else kept_name(number - KEPT)


def segment_numbers(names: list[str]) -> list[int]:
    """The numbers of the segments among these files, in order; other files do not belong to the log."""
    return sorted(int(match[1]) for match in map(_NAME.fullmatch, names) if match)


def encode_segment_header(*, number: int, first_lsn: int) -> bytes:
    facts = _FACTS.pack(_MAGIC, FORMAT_VERSION, number, first_lsn)
    return facts + _CHECK.pack(crc32c(facts))


def decode_segment_header(start: bytes) -> SegmentHeader | None:
    """What the first bytes of the file say; None if they are damaged or too few."""
    if len(start) < SEGMENT_HEADER_BYTES:
        return None
    facts = start[: _FACTS.size]
    magic, version, number, first_lsn = _FACTS.unpack(facts)
    (check,) = _CHECK.unpack_from(start, _FACTS.size)
    if magic != _MAGIC or check != crc32c(facts):
        return None
    return SegmentHeader(version, number, first_lsn)


def reserve_again(file: File, segment_bytes: int) -> None:
    """Grow a segment that will be written to back to its full size.

    A disk without space for it is no failure: the log is whole, and the next write reports the error.
    """
    try:
        file.allocate(segment_bytes)
    except OSError as failure:
        if failure.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
