"""Files in memory, for a server that runs without a WAL: the same log, gone when the process ends."""

from __future__ import annotations

import os
from collections.abc import Sequence

from driftq.errors import LogLocked
from driftq.log.files import Bytes


class MemoryFile:
    """Holds the bytes that were written and no more: reserving space costs nothing and adds nothing."""

    def __init__(self) -> None:
        self._content = bytearray()

    def write_at(self, position: int, parts: Sequence[Bytes]) -> None:
        if position > len(self._content):
            self.truncate(position)
        for part in parts:
            end = position + len(part)
            self._content[position:end] = part
            position = end

    def write_through(self, position: int, parts: Sequence[Bytes]) -> None:
        self.write_at(position, parts)

    def read_at(self, position: int, size: int) -> bytes:
        return bytes(self._content[position : position + size])

    def try_read_at(self, position: int, size: int) -> bytes | None:
        return self.read_at(position, size)

    def sync(self) -> None:
        pass

    def allocate(self, size: int) -> None:
        pass

    def fill(self, position: int, size: int) -> None:
        pass

    def truncate(self, size: int) -> None:
        missing = size - len(self._content)
        if missing > 0:
            self._content.extend(bytes(missing))
        else:
            del self._content[size:]

    def size(self) -> int:
        return len(self._content)

    def close(self) -> None:
        pass


class MemoryFolder:
    """Files by name. Closing releases the lock and keeps the files, so a log can be opened on it again."""

    def __init__(self) -> None:
        self._files: dict[str, MemoryFile] = {}
        self._locked = False

    @property
    def path(self) -> str:
        return "(memory)"

    def names(self) -> list[str]:
        return list(self._files)

    def create(self, name: str) -> MemoryFile:
        if name in self._files:
            raise FileExistsError(name)
        self._files[name] = MemoryFile()
        return self._files[name]

    def open(self, name: str) -> MemoryFile:
        if name not in self._files:
            raise FileNotFoundError(name)
        return self._files[name]

    def remove(self, name: str) -> None:
        if self._files.pop(name, None) is None:
            raise FileNotFoundError(name)

    def rename(self, name: str, new: str) -> None:
        file = self.open(name)
        del self._files[name]
        self._files[new] = file

    def map(self, name: str) -> memoryview:
        file = self.open(name)
        return memoryview(file.read_at(0, file.size()))

    def sync(self) -> None:
        pass

    def lock(self) -> None:
        if self._locked:
            raise LogLocked(self.path)
        self._locked = True

    def free_bytes(self) -> int:
        pages = "SC_AVPHYS_PAGES" if "SC_AVPHYS_PAGES" in os.sysconf_names else "SC_PHYS_PAGES"
        return os.sysconf(pages) * os.sysconf("SC_PAGE_SIZE")

    def close(self) -> None:
        self._locked = False
