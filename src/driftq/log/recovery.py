"""Recovery at a start: read every whole frame in order, cut a torn tail, refuse damage.

A *torn tail* is damage that no whole frame follows: a write that a crash interrupted and that was never
confirmed. It is cut off and reported. Damage in front of a whole frame is *corruption*: cutting there would
lose frames that were confirmed, so `LogCorrupt` is raised and nothing is changed. A segment is sealed and
synced before the next one is created; so, where a later segment file exists, no damage is a torn tail.

`examine` only reads; `settle` acts on what it found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from driftq.errors import FormatTooNew, LogCorrupt
from driftq.log.files import Folder
from driftq.log.frame import NOTHING, LogEnd
from driftq.log.handles import OpenSegments
from driftq.log.scan import Behind, Fold, Stop, look_behind, read_frames
from driftq.log.segment import (
    FORMAT_VERSION,
    SEGMENT_HEADER_BYTES,
    SegmentHeader,
    decode_segment_header,
    reserve_again,
    segment_name,
    segment_numbers,
)


@dataclass(frozen=True, slots=True)
class Cut:
    """A torn tail: these bytes of the file belong to no whole frame. At position 0 the whole file goes."""

    file: str
    position: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Recovery:
    """What was kept, counted in frames and payload bytes, and what was cut.

    `rewrite_from` is where the last frame starts, or 0 if only the segment's header is in front of it.
    """

    frames: int
    bytes: int
    end: LogEnd
    rewrite_from: int
    segments: tuple[int, ...]
    cut: Cut | None

    @property
    def last_lsn(self) -> int:
        return self.end.lsn


def examine(
    folder: Folder, files: OpenSegments, fold: Fold, *, after: LogEnd = NOTHING, upto: int | None = None
) -> Recovery:
    """Verify the log behind `after`, the end of a segment, and fold it. Raises LogCorrupt or FormatTooNew.

    Changes nothing. Segments up to `after` are not looked at, nor those above `upto`, which is sealed.
    """
    numbers = [number for number in segment_numbers(folder.names()) if number > after.segment]
    if upto is not None:
        numbers = [number for number in numbers if number <= upto]
    if after is not NOTHING and numbers[:1] != [after.segment + 1]:
        raise _corrupt(folder, after.segment + 1, 0, f"segment {after.segment + 1} is missing")
    headers = _read_headers(folder, files, numbers)
    if after is not NOTHING and not headers:
        raise _corrupt(folder, after.segment + 1, 0, "the segment header does not match its checksum")
    cut: Cut | None = None
    if len(headers) < len(numbers):
        cut = _unborn(folder, files, numbers[-1], lsn=headers[-1].first_lsn - 1 if headers else after.lsn)
    frames = payload_bytes = rewrite_from = 0
    end = after
    for header in headers:
        if end is not NOTHING and header.first_lsn != end.lsn + 1:
            problem = f"frame {end.lsn} ends it, frame {header.first_lsn} starts the next segment"
            raise _corrupt(folder, end.segment, end.position, problem)
        stop = read_frames(
            files.get(header.number),
            segment=header.number,
            start=SEGMENT_HEADER_BYTES,
            lsn=header.first_lsn - 1,
            fold=fold,
        )
        frames += stop.frames
        payload_bytes += stop.payload_bytes
        end = LogEnd(header.number, stop.position, stop.lsn)
        tail = _judge_tail(
            folder, files, header.number, stop, last=upto is None and header.number == numbers[-1]
        )
        cut = tail or cut
        rewrite_from = stop.last_frame if stop.frames > 1 else 0
    return Recovery(
        frames=frames,
        bytes=payload_bytes,
        end=end,
        rewrite_from=rewrite_from,
        segments=tuple(header.number for header in headers),
        cut=cut,
    )


def settle(folder: Folder, files: OpenSegments, found: Recovery, *, segment_bytes: int) -> None:
    """Cut what was found torn and sync what is kept, so that the next power cut cannot take it.

    The last frame is written once more. If its sync failed and the process then died, the kernel may hold it
    as clean without its being on disk, and a sync alone would do nothing.
    """
    if found.cut is not None and found.cut.position == 0:
        files.remove(segment_numbers(folder.names())[-1])
    folder.sync()  # A removed segment must be gone before the one in front of it is changed.
    for number in found.segments[:-1]:
        files.get(number).sync()
    if found.segments:
        file = files.get(found.end.segment)
        if found.cut is not None:
            file.truncate(found.end.position)
        reserve_again(file, segment_bytes)
        last_frame = file.read_at(found.rewrite_from, found.end.position - found.rewrite_from)
        file.write_at(found.rewrite_from, [last_frame])
        file.sync()


def _read_headers(folder: Folder, files: OpenSegments, numbers: Sequence[int]) -> list[SegmentHeader]:
    """The headers of all segments; one fewer if that of the last one is damaged."""
    headers: list[SegmentHeader] = []
    for number in numbers:
        if number != numbers[0] + len(headers):
            missing = numbers[0] + len(headers)
            raise _corrupt(folder, missing, 0, f"segment {missing} is missing")
        header = decode_segment_header(files.get(number).read_at(0, SEGMENT_HEADER_BYTES))
        if header is None:
            if number != numbers[-1]:
                raise _corrupt(folder, number, 0, "the segment header does not match its checksum")
            break
        if header.version > FORMAT_VERSION:
            raise FormatTooNew(_path(folder, number), found=header.version, known=FORMAT_VERSION)
        if header.number != number:
            raise _corrupt(folder, number, 0, f"the segment header is that of segment {header.number}")
        headers.append(header)
    return headers


def _unborn(folder: Folder, files: OpenSegments, number: int, *, lsn: int) -> Cut:
    """A last segment whose header is damaged: its creation was interrupted, unless it has a whole frame."""
    behind = look_behind(files.get(number), start=0, lsn=lsn)
    if behind.complete_frame is not None:
        raise _corrupt(folder, number, 0, "the segment header does not match its checksum")
    return Cut(_path(folder, number), position=0, bytes=behind.used_end)


def _judge_tail(folder: Folder, files: OpenSegments, number: int, stop: Stop, *, last: bool) -> Cut | None:
    """What lies behind the last whole frame of a segment: nothing, a torn tail, or (raised) corruption."""
    behind = Behind(stop.position, stop.position)
    if not stop.out_of_order:
        behind = look_behind(files.get(number), start=stop.resume, lsn=stop.lsn)
    torn = stop.problem is not None or behind.used_end > stop.position
    if torn and (behind.complete_frame is not None or not last):
        raise _corrupt(folder, number, stop.position, stop.problem or "zeros stand in the place of a frame")
    if not torn:
        return None
    end = min(max(behind.used_end, stop.resume), files.get(number).size())
    return Cut(_path(folder, number), position=stop.position, bytes=end - stop.position)


def _corrupt(folder: Folder, number: int, position: int, problem: str) -> LogCorrupt:
    return LogCorrupt(_path(folder, number), position=position, problem=problem, folder=folder.path)


def _path(folder: Folder, number: int) -> str:
    return f"{folder.path}/{segment_name(number)}"
