"""The port to storage: what the log needs of a file and of the folder that holds it.

It has three adapters: `OsFolder` (real files), `MemoryFolder` (running without a WAL) and the
simulated disk in `driftq.testing.disk`. All methods block and raise `OSError`, except `try_read_at`, which
may be called on an event loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

Bytes = bytes | bytearray | memoryview


class File(Protocol):
    """One file, addressed by byte position; there is no file pointer, so threads may share it."""

    def write_at(self, position: int, parts: Sequence[Bytes]) -> None:
        """Write all parts one after the other. An error may leave any prefix of them written."""

    def write_through(self, position: int, parts: Sequence[Bytes]) -> None:
        """Write all parts and return when they are on stable storage, with the size that they need.

        It says nothing about bytes that were written before. After an error the state of these is unknown.
        """

    def read_at(self, position: int, size: int) -> bytes:
        """Up to `size` bytes; fewer only at the end of the file."""

    def try_read_at(self, position: int, size: int) -> bytes | None:
        """Like `read_at`, but None where it would wait for the disk."""

    def sync(self) -> None:
        """Return when content and size are on stable storage. After an error the state of both is unknown."""

    def allocate(self, size: int) -> None:
        """Reserve space up to `size` and grow the file to it with zeros; never shrinks it."""

    def fill(self, position: int, size: int) -> None:
        """Put zeros on stable storage in reserved space, if later writes there are quicker for it."""

    def truncate(self, size: int) -> None: ...

    def size(self) -> int: ...

    def close(self) -> None: ...


class Folder(Protocol):
    """A flat folder that belongs to one log."""

    @property
    def path(self) -> str:
        """For messages only."""

    def names(self) -> list[str]: ...

    def create(self, name: str) -> File:
        """Create the file; FileExistsError if it is there."""

    def open(self, name: str) -> File: ...

    def remove(self, name: str) -> None: ...

    def rename(self, name: str, new: str) -> None:
        """Rename the file, replacing any file of that name: atomically."""

    def map(self, name: str) -> memoryview:
        """The whole file for reading, without a copy where possible. The file must not change."""

    def sync(self) -> None:
        """Return when creations, removals and renames are on stable storage."""

    def lock(self) -> None:
        """Take the folder for this log until `close`; LogLocked at once if another process has it."""

    def free_bytes(self) -> int: ...

    def close(self) -> None: ...
