"""Reading a segment from front to back: the whole frames, where they stop, and what lies behind.

Chunks of a few MiB are read at a time and payloads are handed on as views into them, so nothing is copied and
memory does not follow the size of the segment.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from crc32c import crc32c

from driftq.log.files import File
from driftq.log.frame import HEADER_BYTES, MAGIC, decode_header

CHUNK_BYTES = 4 * 1024 * 1024
_ZEROS = bytes(CHUNK_BYTES)

Fold = Callable[[int, int, memoryview], None]


class Stop(NamedTuple):
    """Where the run of whole frames ended, and why."""

    position: int
    """Behind the last whole frame."""
    lsn: int
    frames: int
    payload_bytes: int
    last_frame: int
    """Where the last whole frame starts, if there is one."""
    problem: str | None
    """None: the file ends here, or zeros stand where a header would."""
    resume: int
    """From here on there may be more frames: behind this one if its header can be trusted, else in it."""
    out_of_order: bool
    """There is a whole frame here, but not the one that has to follow."""


class Behind(NamedTuple):
    """What was found behind a stop."""

    complete_frame: int | None
    """Position of the first whole frame."""
    used_end: int
    """Behind the last byte that is not zero."""


def read_frames(file: File, *, segment: int, start: int, lsn: int, fold: Fold) -> Stop:
    """Verify frame after frame, the first being `lsn` + 1, and hand each payload to `fold`."""
    position = base = start
    chunk = b""
    view = memoryview(chunk)
    frames = payload_bytes = last_frame = 0

    def stop(problem: str | None, *, resume: int, out_of_order: bool = False) -> Stop:
        return Stop(position, lsn, frames, payload_bytes, last_frame, problem, resume, out_of_order)

    while True:
        at = position - base
        if len(chunk) - at < HEADER_BYTES:
            chunk, base, at = file.read_at(position, CHUNK_BYTES), position, 0
            view = memoryview(chunk)
            if len(chunk) < HEADER_BYTES:
                return stop("a frame header is cut short" if any(chunk) else None, resume=position)
        header = decode_header(chunk, at)
        if header is None:
            if any(view[at : at + HEADER_BYTES]):
                return stop("a frame header does not match its checksum", resume=position + 1)
            return stop(None, resume=position)
        need = HEADER_BYTES + header.length
        if at + need > len(chunk):
            chunk, base, at = file.read_at(position, max(CHUNK_BYTES, need)), position, 0
            view = memoryview(chunk)
            if len(chunk) < need:
                return stop(f"the payload of frame {header.lsn} is cut short", resume=position + need)
        payload = view[at + HEADER_BYTES : at + need]
        if crc32c(payload) != header.crc:
            problem = f"the payload of frame {header.lsn} does not match its checksum"
            return stop(problem, resume=position + need)
        if header.lsn != lsn + 1:
            problem = f"frame {header.lsn} stands where frame {lsn + 1} has to be"
            return stop(problem, resume=position, out_of_order=True)
        fold(segment, position + HEADER_BYTES, payload)
        lsn = header.lsn
        frames += 1
        payload_bytes += header.length
        last_frame = position
        position += need


def look_behind(file: File, *, start: int, lsn: int) -> Behind:
    """Search for a whole frame later than `lsn`, to the end of the file.

    An earlier one does not count: it can only be a copy of a log's bytes inside a payload that was torn.
    """
    used_end = position = start
    while True:
        chunk = file.read_at(position, CHUNK_BYTES)
        if chunk != _ZEROS[: len(chunk)]:
            at = chunk.find(MAGIC)
            while 0 <= at <= len(chunk) - HEADER_BYTES:
                if _is_complete(file, chunk, at, position=position + at, lsn=lsn):
                    return Behind(position + at, position + len(chunk))
                at = chunk.find(MAGIC, at + 1)
            used_end = position + len(chunk.rstrip(b"\0"))
        if len(chunk) < CHUNK_BYTES:
            return Behind(None, used_end)
        position += CHUNK_BYTES - (HEADER_BYTES - 1)  # A header may lie across two chunks.


def _is_complete(file: File, chunk: bytes, at: int, *, position: int, lsn: int) -> bool:
    header = decode_header(chunk, at)
    if header is None or header.lsn <= lsn:
        return False
    payload = file.read_at(position + HEADER_BYTES, header.length)
    return len(payload) == header.length and crc32c(payload) == header.crc
