"""Files of the operating system, behind the port of `driftq.log.files`."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
from collections.abc import Sequence

from driftq.errors import LogLocked
from driftq.log.files import Bytes

_PARTS_MAX = min(os.sysconf("SC_IOV_MAX"), 1024)
_NO_WAIT: int | None = getattr(os, "RWF_NOWAIT", None)
_THROUGH: int | None = getattr(os, "RWF_DSYNC", None)
_TRUSTED = {"ext4", "xfs"}
"""File systems whose kernel code ends such a write with the work of fdatasync.

Others may ignore the flag without an error. A daemon behind FUSE or 9p, for instance, gets it as a hint.
"""
_NOT_SUPPORTED = {errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}
_FEW = 4
"""Parts of a write that a look at their sizes costs next to nothing."""
_ZEROS = bytes(1024 * 1024)
_sync = getattr(os, "fdatasync", os.fsync)
_allocate = getattr(os, "posix_fallocate", None)


class OsFile:
    """A file descriptor. It is closed by `close`, or when the last thread that reads from it releases it."""

    def __init__(self, descriptor: int, *, writes_through: bool = False) -> None:
        """`writes_through`: it is on one of the trusted file systems, which also write in place."""
        self._descriptor = descriptor
        self._fills = writes_through
        self._through = _THROUGH if writes_through else None

    def write_at(self, position: int, parts: Sequence[Bytes]) -> None:
        self._write(position, parts, flags=0)

    def write_through(self, position: int, parts: Sequence[Bytes]) -> None:
        if self._through is not None:
            try:
                self._write(position, parts, flags=self._through)
            except OSError as refusal:
                if refusal.errno not in _NOT_SUPPORTED:
                    raise
                self._through = None
            else:
                return
        self._write(position, parts, flags=0)
        self.sync()

    def _write(self, position: int, parts: Sequence[Bytes], *, flags: int) -> None:
        """All parts, however few bytes a call takes, each call with these flags."""
        written = 0
        if 0 < len(parts) <= _FEW:  # Most often, and then one call takes them all.
            written = os.pwritev(self._descriptor, parts, position, flags)
            if written == sum([len(part) if type(part) is bytes else _size_of(part) for part in parts]):
                return
        self._write_rest(position, parts, written, flags=flags)

    def _write_rest(self, position: int, parts: Sequence[Bytes], written: int, *, flags: int) -> None:
        """What is behind the first `written` bytes of these parts, which begin at this position."""
        waiting = [memoryview(part).cast("B") for part in parts if len(part)]
        first = 0
        while True:
            position += written
            while first < len(waiting) and written >= len(waiting[first]):
                written -= len(waiting[first])
                first += 1
            if first == len(waiting):
                return
            if written:
                waiting[first] = waiting[first][written:]
            written = os.pwritev(self._descriptor, waiting[first : first + _PARTS_MAX], position, flags)
            if written == 0:
                raise OSError(errno.EIO, "the file takes no more bytes")

    def read_at(self, position: int, size: int) -> bytes:
        found = os.pread(self._descriptor, size, position)
        if len(found) == size or not found:
            return found
        pieces = [found]
        missing = size - len(found)
        while missing and (found := os.pread(self._descriptor, missing, position + size - missing)):
            pieces.append(found)
            missing -= len(found)
        return b"".join(pieces)

    def try_read_at(self, position: int, size: int) -> bytes | None:
        if _NO_WAIT is None:
            return None
        target = bytearray(size)
        try:
            read = os.preadv(self._descriptor, [target], position, _NO_WAIT)
        except OSError as refusal:
            if refusal.errno == errno.EAGAIN or refusal.errno in _NOT_SUPPORTED:
                return None
            raise
        if read == size:
            return bytes(target)
        return bytes(target[:read]) if position + read >= self.size() else None

    def sync(self) -> None:
        _sync(self._descriptor)

    def allocate(self, size: int) -> None:
        present = self.size()
        if size <= present:
            return
        if _allocate is not None:
            try:
                _allocate(self._descriptor, present, size - present)
                return
            except OSError as refusal:
                if refusal.errno not in _NOT_SUPPORTED:
                    raise
        for position in range(present, size, len(_ZEROS)):
            self.write_at(position, [_ZEROS[: size - position]])

    def fill(self, position: int, size: int) -> None:
        if self._fills:  # Elsewhere later writes may not go to the place of the zeros.
            for at in range(position, position + size, len(_ZEROS)):
                self.write_through(at, [_ZEROS[: position + size - at]])

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()


class OsFolder:
    """A directory, made if missing; all names are resolved inside it, wherever it is moved."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.fspath(path)
        self._descriptor = -1
        _make_durably(os.path.abspath(self._path))
        self._descriptor = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY)
        self._writes_through = _file_system(os.fstat(self._descriptor).st_dev) in _TRUSTED

    @property
    def path(self) -> str:
        return self._path

    def names(self) -> list[str]:
        return os.listdir(self._descriptor)

    def create(self, name: str) -> OsFile:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
        return self._file(os.open(name, flags, 0o640, dir_fd=self._descriptor))

    def open(self, name: str) -> OsFile:
        return self._file(os.open(name, os.O_RDWR, dir_fd=self._descriptor))

    def _file(self, descriptor: int) -> OsFile:
        return OsFile(descriptor, writes_through=self._writes_through)

    def remove(self, name: str) -> None:
        os.unlink(name, dir_fd=self._descriptor)

    def rename(self, name: str, new: str) -> None:
        os.rename(name, new, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)

    def map(self, name: str) -> memoryview:
        descriptor = os.open(name, os.O_RDONLY, dir_fd=self._descriptor)
        try:
            if not os.fstat(descriptor).st_size:
                return memoryview(b"")
            return memoryview(mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ))
        finally:
            os.close(descriptor)

    def sync(self) -> None:
        os.fsync(self._descriptor)

    def lock(self) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LogLocked(self._path) from None

    def free_bytes(self) -> int:
        room = os.fstatvfs(self._descriptor)
        return room.f_bavail * room.f_frsize

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()


def _size_of(part: Bytes) -> int:
    """In bytes, whatever the items of a view are."""
    return memoryview(part).nbytes


def _file_system(device: int) -> str | None:
    """The kind of the file system on this device; None where the system does not say."""
    number = f"{os.major(device)}:{os.minor(device)}"
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as mounts:
            for line in mounts:
                fields = line.split()
                if fields[2] == number:
                    return fields[fields.index("-") + 1]
    except (OSError, ValueError, IndexError):
        return None
    return None


def _make_durably(path: str) -> None:
    """Make the folder and those above it, each synced into its parent."""
    if os.path.isdir(path):
        return
    parent = os.path.dirname(path)
    _make_durably(parent)
    os.makedirs(path, mode=0o750, exist_ok=True)
    descriptor = os.open(parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
