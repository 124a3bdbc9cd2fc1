"""The log: frames in segment files, laid out by one thread, written by another.

One thread, the loop, lays frames out (`begin`, `append`, `finish`) and reads; one thread writes them in that
order (`write`, `sync`, `write_durably`). `confirm` is for the thread that writes, or for the loop while no
write is under way: it covers everything that is written. `recover` and `cut_back` need the writer thread
idle. `read` and `prepare` are for any thread.

    log = Log.open(OsFolder(path))
    log.recover(fold)
    frame = log.begin(len(record))
    position = frame.append(record)
    log.finish(frame)
    log.write_durably(frame); log.confirm()

Three places matter to the writer: *written* (behind the last whole frame in the file), *synced* (known to be
on stable storage) and *confirmed* (reported to a client, or about to be: it may not be cut). After a failed
write or sync nothing more is written until `cut_back` has restored *confirmed*: the kernel drops its dirty
pages after a failed sync, so that a second sync would succeed and mean nothing.

Where a power cut must do no more than tear the tail, use `write_durably` for each frame: of two that wait for
the same sync the second may reach the disk without the first, and recovery takes that for corruption.
"""

from __future__ import annotations

import errno

from driftq.errors import LogCorrupt, LogError
from driftq.log.files import File, Folder
from driftq.log.frame import HEADER_BYTES, NOTHING, Frame, Layout, LogEnd
from driftq.log.handles import OpenSegments
from driftq.log.recovery import Recovery, examine, settle
from driftq.log.scan import Fold
from driftq.log.segment import encode_segment_header, file_name, reserve_again, segment_numbers

SEGMENT_BYTES = 64 * 1024 * 1024
SEGMENT_RECORDS = 100_000
_ZEROS_MIN = 1024 * 1024
"""Written into a spare file at least, and beyond what the segment in use has."""


class Log:
    def __init__(self, folder: Folder, *, segment_bytes: int, segment_records: int = SEGMENT_RECORDS) -> None:
        """Use `open`, which takes the folder's lock."""
        self.folder = folder
        self.files = OpenSegments(folder)
        self._segment_bytes = segment_bytes
        self._layout = Layout(segment_bytes, segment_records=segment_records)
        self._recovered = False
        self._file: File | None = None
        """The segment that frames are written to."""
        self._trouble: str | None = None
        """A failure that has not been cut back."""
        self._sync_failed = False
        self._last_size = 0
        """Of the segment before the one in use."""
        self._written = self._synced = NOTHING
        self._segments: tuple[int, ...] = ()
        self.confirmed = NOTHING
        """Behind the last frame that may not be cut back any more."""
        self.written_bytes = 0
        """Frames and their headers, since `open`."""
        self.broken: str | None = None
        """Why the log refuses all further writes."""

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
    def sealed(self) -> int:
        """The last segment that will never change: a frame behind it is confirmed. 0 when there is none."""
        return max(0, self.confirmed.segment - 1)

    @property
    def last_lsn(self) -> int:
        """Of the last frame written; 0 in an empty log."""
        return self._written.lsn

    @property
    def segment(self) -> int:
        """The segment of the last frame written; 0 in an empty log."""
        return self._written.segment

    @property
    def segments(self) -> list[int]:
        return list(self._segments)

    def recover(self, fold: Fold, *, after: LogEnd = NOTHING) -> Recovery:
        """Verify the log and call `fold(segment, payload_position, payload)` for each frame, in order.

        With `after`, the end of a segment, only for the frames of later segments.
        A torn tail is cut and reported; LogCorrupt and FormatTooNew leave the files as they are. On return
        everything kept is on stable storage. May be called again, after `cut_back`, to repeat the fold. The
        payload is a view into memory that is never reused.
        """
        self._require_no_trouble()
        self._recovered = False
        found = examine(self.folder, self.files, fold, after=after)
        settle(self.folder, self.files, found, segment_bytes=self._segment_bytes)
        self._layout.start_over(found.end)
        self._segments = found.segments
        self._resume_at(found.end)
        self._recovered = True
        return found

    # The loop lays frames out

    def roll(self) -> None:
        """Let the next frame start a new segment."""
        self._layout.roll()

    def note_records(self, count: int) -> None:
        """After `recover`: the number of records in the segment that the next frame goes to."""
        self._layout.start_over(self._written, records=count)

    def begin(self, size: int) -> Frame:
        """Open the next frame, with space for at least `size` bytes.

        It lies behind the last one laid out if it fits there below the segment's end, else at the start of
        the next segment. ValueError if a frame is open or `size` is above MAX_PAYLOAD.
        """
        if not self._recovered:
            raise LogError(f"{self.folder.path} has not been recovered")
        return self._layout.begin(size)

    def finish(self, frame: Frame) -> None:
        """Fix the frame's length; the next one is laid out behind it. An empty frame is forgotten."""
        self._layout.finish(frame)

    # The writer thread brings them to disk

    def write(self, frame: Frame) -> None:
        """Write a finished frame; ValueError if it is not its turn. After OSError, `cut_back` comes next."""
        self._write(frame, durably=False)

    def write_durably(self, frame: Frame) -> None:
        """Like `write`, and return when the frame and all before it are on stable storage."""
        if self._written.lsn == self._synced.lsn:
            self._write(frame, durably=True)
        else:  # A write that syncs itself leaves the frames before it where they are.
            self.write(frame)
            self.sync()

    def _write(self, frame: Frame, *, durably: bool) -> None:
        waiting = self._layout.waiting
        if not waiting or waiting[0] is not frame:
            raise ValueError(f"frame {frame.lsn} is not the next to be written")
        if self.broken is not None or self._trouble is not None:
            self._require_no_trouble()
        try:
            if frame.segment != self._written.segment:
                self._start_segment(frame)
            assert self._file is not None  # The first frame started a segment.
            start = frame.position - HEADER_BYTES
            if durably:
                self._sync_failed = True
                self._file.write_through(start, frame.encoded())
                self._sync_failed = False
                self._synced = frame.end
            else:
                self._file.write_at(start, frame.encoded())
        except BaseException:
            self._trouble = f"frame {frame.lsn} could not be written"
            raise
        self._written = frame.end
        self.written_bytes += HEADER_BYTES + frame.size
        waiting.popleft()

    def sync(self) -> None:
        """Return when everything written is on stable storage. After OSError, `cut_back` comes next."""
        self._require_no_trouble()
        if self._file is not None:
            self._trouble = "a sync failed"
            self._sync(self._file)
            self._trouble = None

    def confirm(self) -> None:
        """From here on, everything written so far may not be cut back."""
        if self.broken is not None or self._trouble is not None:
            self._require_no_trouble()
        self.confirmed = self._written

    def prepare(self) -> None:
        """Take the disk space of the next segment ahead of time; any thread. OSError if there is none."""
        self.files.prepare_spare(self._segment_bytes)

    def fill_spare(self) -> bool:
        """Write some zeros into that space; False when enough are there. Any thread, one at a time.

        As many as segments hold lately, no more: a server that writes little shall not write zeros instead.
        """
        expected = max(self._last_size, self._written.position)
        return self.files.fill_spare(min(expected + expected // 4 + _ZEROS_MIN, self._segment_bytes))

    def _require_no_trouble(self) -> None:
        """LogError after a failure that has not been cut back."""
        if self.broken is not None:
            raise LogError(self.broken)
        if self._trouble is not None:
            raise LogError(f"{self._trouble} and the log has not been cut back")

    def _start_segment(self, frame: Frame) -> None:
        """Seal the segment in use and create the next, both on stable storage before a frame goes there."""
        if self._file is not None:
            self._file.truncate(self._written.position)
            self._sync(self._file)
            self._last_size = self._written.position
        self._file = self.files.create(frame.segment)
        self._segments += (frame.segment,)
        self._file.allocate(max(self._segment_bytes, frame.position + frame.size))
        self._file.write_at(0, [encode_segment_header(number=frame.segment, first_lsn=frame.lsn)])
        self._file.sync()
        self.folder.sync()

    def _sync(self, file: File) -> None:
        self._sync_failed = True
        file.sync()
        self._sync_failed = False
        self._synced = self._written

    def cut_back(self) -> None:
        """Forget every frame laid out or written since the last `confirm`, here and in the files.

        OSError if that fails, and then `broken` says why and every later write is refused.
        """
        if self.broken is not None:
            raise OSError(errno.EIO, self.broken)
        try:
            self._cut_to(self.confirmed)
            self._resume_at(self.confirmed)
        except OSError as failure:
            self.broken = f"the log could not be cut back to frame {self.confirmed.lsn}: {failure}"
            raise
        self._layout.start_over(self.confirmed)

    def _cut_to(self, end: LogEnd) -> None:
        if self._sync_failed and end.lsn > self._synced.lsn:
            # Confirmed without a sync and now perhaps lost: no cut repairs that.
            raise OSError(errno.EIO, f"frames {self._synced.lsn + 1} to {end.lsn} could not be synced")
        later = [number for number in segment_numbers(self.folder.names()) if number > end.segment]
        for number in reversed(later):
            self.files.remove(number)
        if later:
            self.folder.sync()  # They must be gone before the segment in front of them is changed.
        if end.segment:
            file = self.files.get(end.segment)
            file.truncate(end.position)
            reserve_again(file, self._segment_bytes)
            file.sync()
        self._segments = tuple(number for number in self._segments if number <= end.segment)

    def _resume_at(self, end: LogEnd) -> None:
        self._file = self.files.get(end.segment) if end.segment else None
        self._trouble = None
        self._sync_failed = False
        self._synced = self._written = self.confirmed = end

    # Any thread reads

    def read(self, segment: int, position: int, size: int) -> bytes:
        """Bytes that were written; LogCorrupt if the file ends before them."""
        found = self.files.get(segment).read_at(position, size)
        return self._whole(found, segment=segment, position=position, size=size)

    def try_read(self, segment: int, position: int, size: int) -> bytes | None:
        """Like `read`, but None where it would have to wait for the disk: then `read` in another thread."""
        file = self.files.at_hand(segment)
        found = None if file is None else file.try_read_at(position, size)
        return None if found is None else self._whole(found, segment=segment, position=position, size=size)

    def _whole(self, found: bytes, *, segment: int, position: int, size: int) -> bytes:
        if len(found) == size:
            return found
        raise self.damage(segment, position, f"the file ends {size - len(found)} bytes too early")

    def damage(self, segment: int, position: int, problem: str) -> LogCorrupt:
        """The error to raise when bytes of this log are damaged."""
        path = f"{self.folder.path}/{file_name(segment)}"
        return LogCorrupt(path, position=position, problem=problem, folder=self.folder.path)

    def close(self) -> None:
        """Release files and lock, without a sync."""
        self.files.close()
        self.folder.close()
