"""Where the next frame goes. Belongs to the thread that decides records; nothing here touches a file."""

from __future__ import annotations

from collections import deque

from driftq.log.frame import HEADER_BYTES, MAX_PAYLOAD, NOTHING, Frame, LogEnd
from driftq.log.segment import SEGMENT_HEADER_BYTES


class Layout:
    """Lays frames out one after the other, ahead of the writer.

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
            self._end = frame.end
            self._records += frame.records
            self.waiting.append(frame)

    def roll(self) -> None:
        """The next frame starts a new segment, unless the last one has none yet."""
        self._records = self._segment_records
