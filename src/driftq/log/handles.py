"""Open segment files, shared by the threads that read and the one that writes.

The number of open files is limited. An evicted file is not closed here: a thread may be reading from it, so
it closes when the last reader releases it.

A spare file takes the disk space of the next segment before anything needs it, and becomes that segment.
Zeros are written into it ahead of time: a sync of bytes that replace written ones is quicker than one of
bytes in space that is only reserved, because nothing but the data changes. A spare without zeros serves too.
"""

from __future__ import annotations

from threading import Lock

from driftq.log.files import File, Folder
from driftq.log.segment import file_name

SPARE = "next.spare"
_OPEN_MAX = 256
_FILL_BYTES = 256 * 1024


class OpenSegments:
    def __init__(self, folder: Folder, *, open_max: int = _OPEN_MAX) -> None:
        self._folder = folder
        self._open_max = open_max
        self._files: dict[int, File] = {}
        self._opening = Lock()
        self._spare: File | None = None
        self._filling = Lock()
        """Held while zeros are written, and while the spare becomes a segment."""
        self._filled = 0
        """Up to here the spare has zeros on the disk."""
        self.fill_bytes = _FILL_BYTES
        """Written in one step, for which a new segment may have to wait."""

    def at_hand(self, number: int) -> File | None:
        """The file if it is open. This never opens one, because that could block."""
        return self._files.get(number)

    def get(self, number: int) -> File:
        """The file, opened if it is not; FileNotFoundError if there is none."""
        file = self._files.get(number)
        if file is not None:
            return file
        with self._opening:
            file = self._files.get(number)
            if file is None:
                file = self._folder.open(file_name(number))
                self._keep(number, file)
            return file

    def create(self, number: int) -> File:
        """A new file, or the spare under the new name."""
        with self._filling:
            file = self._spare
            if file is None:
                file = self._folder.create(file_name(number))
            else:
                self._folder.rename(SPARE, file_name(number))
                self._spare = None  # Not before: the next preparation removes an unclaimed spare.
        with self._opening:
            self._keep(number, file)
        return file

    def prepare_spare(self, size: int) -> None:
        """Take `size` bytes for the next new file; any thread, one at a time. OSError if there are none."""
        if self._spare is not None:
            return
        if SPARE in self._folder.names():
            self._folder.remove(SPARE)  # From an earlier process, or from a try that found no space.
        spare = self._folder.create(SPARE)
        spare.allocate(size)
        spare.sync()
        self._filled = 0
        self._spare = spare

    def fill_spare(self, upto: int) -> bool:
        """Write the next zeros into the spare; False when it has them up to there, or when there is no spare.

        For any thread, one at a time. OSError if the disk fails; the spare can be used then as it is.
        """
        with self._filling:
            start = self._filled
            if self._spare is None or start >= upto:
                return False
            size = min(self.fill_bytes, upto - start)
            self._filled = upto  # Should this fail: it is not tried a second time.
            self._spare.fill(start, size)
            self._filled = start + size
            return True

    def forget(self, number: int) -> None:
        """Drop a file that is about to be removed, so that no later call finds it."""
        with self._opening:
            self._files.pop(number, None)

    def remove(self, number: int) -> None:
        self.forget(number)
        self._folder.remove(file_name(number))

    def close(self) -> None:
        with self._opening:
            for file in self._files.values():
                file.close()
            self._files.clear()

    def _keep(self, number: int, file: File) -> None:
        self._files[number] = file
        if len(self._files) > self._open_max:
            del self._files[next(iter(self._files))]
