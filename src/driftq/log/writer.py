"""Bringing frames to disk. Belongs to the writer thread, except `cut_back`, for which that thread is idle.

Three places matter: `written` (behind the last whole frame in the file), `synced` (known to be on stable
storage) and `confirmed` (reported to a client, or about to be: it may not be cut). After a failed write or
sync nothing more is written until `cut_back` has restored `confirmed`: the kernel drops its dirty pages after
a failed sync, so that a second sync would succeed and mean nothing.
"""

from __future__ import annotations

import errno

from driftq.errors import LogError
from driftq.log.files import File, Folder
from driftq.log.frame import HEADER_BYTES, NOTHING, Frame, LogEnd
from driftq.log.handles import OpenSegments
from driftq.log.recovery import Recovery
from driftq.log.segment import encode_segment_header, reserve_again, segment_name, segment_numbers

SPARE = "next.spare"
"""The segment after the one in use: its space is taken before anything needs it."""


class Writer:
    def __init__(self, folder: Folder, files: OpenSegments, *, segment_bytes: int) -> None:
        self._folder = folder
        self._files = files
        self._segment_bytes = segment_bytes
        self._file: File | None = None
        self._trouble: str | None = None
        self._sync_failed = False
        self._synced = NOTHING
        self.written = NOTHING
        self.confirmed = NOTHING
        self._spare: File | None = None
        self.segments: tuple[int, ...] = ()
        self.written_bytes = 0
        self.broken: str | None = None

    def start_from(self, found: Recovery) -> None:
        """Go on behind what recovery kept and synced."""
        self.segments = found.segments
        self._resume_at(found.end)

    def write(self, frame: Frame) -> None:
        self.verify_content()
        self._trouble = f"frame {frame.lsn} could not be written"
        if frame.segment != self.written.segment:
            self._roll(frame)
        assert self._file is not None  # Rolling opened the first one.
        self._file.write_at(frame.position - HEADER_BYTES, frame.encoded())
        self._trouble = None
        self.written = frame.end
        self.written_bytes += HEADER_BYTES + frame.size

    def sync(self) -> None:
        self.verify_content()
        if self._file is not None:
            self._trouble = "a sync failed"
            self._sync(self._file)
            self._trouble = None

    def confirm(self) -> None:
        self.verify_content()
        self.confirmed = self.written

    def cut_back(self) -> None:
        if self.broken is not None:
            raise OSError(errno.EIO, self.broken)
        try:
            self._cut_to(self.confirmed)
            self._resume_at(self.confirmed)
        except OSError as failure:
            self.broken = f"the log could not be cut back to frame {self.confirmed.lsn}: {failure}"
            raise

    def verify_content(self) -> None:
        """LogError after a failure that has not been cut back."""
        if self.broken is not None:
            raise LogError(self.broken)
        if self._trouble is not None:
            raise LogError(f"{self._trouble} and the log has not been cut back")

    def _roll(self, frame: Frame) -> None:
        """Seal the segment in use and create the next, both on stable storage before a frame goes there."""
        if self._file is not None:
            self._file.truncate(self.written.position)
            self._sync(self._file)
        self._file = self._next_file(frame.segment)
        self.segments += (frame.segment,)
        self._file.allocate(max(self._segment_bytes, frame.position + frame.size))
        self._file.write_at(0, [encode_segment_header(number=frame.segment, first_lsn=frame.lsn)])
        self._file.sync()
        self._folder.sync()

    def _next_file(self, number: int) -> File:
        spare = self._spare
        if spare is None:
            return self._files.create(number)
        self._folder.rename(SPARE, segment_name(number))
        self._spare = None  # Not before: the next preparation removes an unclaimed spare.
        self._files.take_in(number, spare)
        return spare

    def prepare(self) -> None:
        """Take the space of the next segment now; any thread, one at a time. OSError when there is none."""
        if self._spare is not None:
            return
        if SPARE in self._folder.names():
            self._folder.remove(SPARE)  # From an earlier process, or from a try that found no space.
        spare = self._folder.create(SPARE)
        spare.allocate(self._segment_bytes)
        spare.sync()
        self._spare = spare

    def _sync(self, file: File) -> None:
        self._sync_failed = True
        file.sync()
        self._sync_failed = False
        self._synced = self.written

    def _cut_to(self, end: LogEnd) -> None:
        if self._sync_failed and end.lsn > self._synced.lsn:
            # Confirmed without a sync and now perhaps lost: no cut repairs that.
            raise OSError(errno.EIO, f"frames {self._synced.lsn + 1} to {end.lsn} could not be synced")
        later = [number for number in segment_numbers(self._folder.names()) if number > end.segment]
        for number in reversed(later):
            self._files.remove(number)
        if later:
            self._folder.sync()  # They must be gone before the segment in front of them is changed.
        if end.segment:
            file = self._files.get(end.segment)
            file.truncate(end.position)
            reserve_again(file, self._segment_bytes)
            file.sync()
        self.segments = tuple(number for number in self.segments if number <= end.segment)

    def _resume_at(self, end: LogEnd) -> None:
        self._file = self._files.get(end.segment) if end.segment else None
        self._trouble = None
        self._sync_failed = False
        self._synced = self.written = self.confirmed = end
