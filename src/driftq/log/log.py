"""The log: frames in segment files, laid out by one thread, written by another.

One thread, the loop, lays frames out (`begin`, `append`, `finish`) and reads; one thread writes them in that
order (`write`, `sync`). `confirm` is for the writer thread, or for the loop while no write is under way: it
covers everything that is written. `recover` and `cut_back` need the writer thread idle. `read` is for any
thread.

    log = Log.open(OsFolder(path))
    log.recover(fold)
    frame = log.begin(len(record))
    position = frame.append(record)
    log.finish(frame)
    log.write(frame); log.sync(); log.confirm()

Where a power cut must do no more than tear the tail, sync after each frame: of two that wait for the same
sync the second may reach the disk without the first, and recovery takes that for corruption.
"""

from __future__ import annotations

from collections import deque

from driftq.errors import LogCorrupt, LogError
from driftq.log.files import Folder
from driftq.log.frame import HEADER_BYTES, MAX_PAYLOAD, NOTHING, Frame, LogEnd
from driftq.log.handles import OpenSegments
from driftq.log.recovery import Recovery, examine, settle
from driftq.log.scan import Fold
from driftq.log.segment import SEGMENT_HEADER_BYTES, file_name
from driftq.log.writer import Writer

SEGMENT_BYTES = 64 * 1024 * 1024
SEGMENT_RECORDS = 100_000


class Log:
    def __init__(self, folder: Folder, *, segment_bytes: int, segment_records: int = SEGMENT_RECORDS) -> None:
        """Use `open`, which takes the folder's lock."""
        self._folder = folder
        self._segment_bytes = segment_bytes
        self._files = OpenSegments(folder)
        self._layout = Layout(segment_bytes, segment_records=segment_records)
        self._writer = Writer(folder, self._files, segment_bytes=segment_bytes)
        self._recovered = False

    @classmethod
    def open(
        cls,
        folder: Folder,
        *,
        segment_bytes: int = SEGMENT_BYTES,
        segment_records: int = SEGMENT_RECORDS,
    ) -> Log:
        """Take the folder for this log; LogLocked if another has it. `recover` comes next."""
        folder.lock()
        return cls(folder, segment_bytes=segment_bytes, segment_records=segment_records)

    @property
    def folder(self) -> Folder:
        return self._folder

    @property
    def files(self) -> OpenSegments:
        return self._files

    @property
    def sealed(self) -> int:
        """The last segment that will never change: a frame behind it is confirmed. 0 when there is none."""
        return max(0, self._writer.confirmed.segment - 1)

    @property
    def confirmed(self) -> LogEnd:
        """Behind the last frame that may not be cut back any more."""
        return self._writer.confirmed

    @property
    def last_lsn(self) -> int:
        """Of the last frame written; 0 in an empty log."""
        return self._writer.written.lsn

    @property
    def segments(self) -> list[int]:
        return list(self._writer.segments)

    @property
    def written_bytes(self) -> int:
        """Frames and their headers, since `open`."""
        return self._writer.written_bytes

    @property
    def broken(self) -> str | None:
        """Why the log refuses all further writes."""
        return self._writer.broken

    def recover(self, fold: Fold, *, after: LogEnd = NOTHING) -> Recovery:
        """Verify the log and call `fold(segment, payload_position, payload)` for each frame, in order.

        With `after`, the end of a segment, only for the frames of later segments.
        A torn tail is cut and reported; LogCorrupt and FormatTooNew leave the files as they are. On return
        everything kept is on stable storage. May be called again, after `cut_back`, to repeat the fold. The
        payload is a view into memory that is never reused.
        """
        self._writer.verify_content()
        self._recovered = False
        found = examine(self._folder, self._files, fold, after=after)
        settle(self._folder, self._files, found, segment_bytes=self._segment_bytes)
        self._layout.start_over(found.end)
        self._writer.start_from(found)
        self._recovered = True
        return found

    def prepare(self) -> None:
        """Take the disk space of the next segment ahead of time; for any thread. OSError if there is none."""
        self._writer.prepare()

    def roll(self) -> None:
        """Let the next frame start a new segment."""
        self._layout.roll()

    def note_records(self, count: int) -> None:
        """After `recover`: the number of records in the segment that the next frame goes to."""
        self._layout.start_over(self._writer.written, records=count)

    def begin(self, size: int) -> Frame:
        """Open the next frame, with space for at least `size` bytes.

        It lies behind the last one laid out if it fits there below the segment's end, else at the start of
        the next segment. ValueError if a frame is open or `size` is above MAX_PAYLOAD.
        """
        if not self._recovered:
            raise LogError(f"{self._folder.path} has not been recovered")
        return self._layout.begin(size)

    def finish(self, frame: Frame) -> None:
        """Fix the frame's length; the next one is laid out behind it. An empty frame is forgotten."""
        self._layout.finish(frame)

    def write(self, frame: Frame) -> None:
        """Write a finished frame; ValueError if it is not its turn. After OSError, `cut_back` comes next."""
        waiting = self._layout.waiting
        if not waiting or waiting[0] is not frame:
            raise ValueError(f"frame {frame.lsn} is not the next to be written")
        self._writer.write(frame)
        waiting.popleft()

    def sync(self) -> None:
        """Return when everything written is on stable storage. After OSError, `cut_back` comes next."""
        self._writer.sync()

    def confirm(self) -> None:
        """From here on, everything written so far may not be cut back."""
        self._writer.confirm()

    def cut_back(self) -> None:
        """Forget every frame laid out or written since the last `confirm`, here and in the files.

        OSError if that fails, and then `broken` says why and every later write is refused.
        """
        self._writer.cut_back()
        self._layout.start_over(self._writer.confirmed)

    def read(self, segment: int, position: int, size: int) -> bytes:
        """Bytes that were written; LogCorrupt if the file ends before them."""
        found = self._files.get(segment).read_at(position, size)
        return self._whole(found, segment=segment, position=position, size=size)

    def try_read(self, segment: int, position: int, size: int) -> bytes | None:
        """Like `read`, but None where it would have to wait for the disk: then `read` in another thread."""
        file = self._files.at_hand(segment)
        found = None if file is None else file.try_read_at(position, size)
        return None if found is None else self._whole(found, segment=segment, position=position, size=size)

    def damage(self, segment: int, position: int, problem: str) -> LogCorrupt:
        """The error to raise when bytes of this log are damaged."""
        path = f"{self._folder.path}/{file_name(segment)}"
        return LogCorrupt(path, position=position, problem=problem, folder=self._folder.path)

    def close(self) -> None:
        """Release files and lock, without a sync."""
        self._files.close()
        self._folder.close()

    def _whole(self, found: bytes, *, segment: int, position: int, size: int) -> bytes:
        if len(found) == size:
            return found
        raise self.damage(segment, position, f"the file ends {size - len(found)} bytes too early")


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
            self._end = frame.end
            self._records += frame.records
            self.waiting.append(frame)

    def roll(self) -> None:
        """The next frame starts a new segment, unless the last one has none yet."""
        self._records = self._segment_records
