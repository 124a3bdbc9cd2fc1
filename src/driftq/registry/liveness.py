"""Who is alive on this machine: each process keeps a file locked for as long as it lives.

A claim of a process that died becomes free when its lease ends, which may take a quarter of an hour. But the
operating system releases a file lock at the moment its process ends, however it ends. So a process that gets
the lock of such a file knows that its owner has ended and does not have to wait for the lease.

A process on another machine has no file here, and one that left a forked child behind still counts as
alive: in both cases the lease decides.
"""

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

_ENDING = ".lock"


class Liveness:
    """The file of one name in a folder, locked until `close` or the end of the process."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / f"{name}{_ENDING}"
        hidden = folder / f"{name}.new"
        self._file = os.open(hidden, os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(self._file, fcntl.LOCK_EX)
        hidden.rename(self._path)  # It is never visible unlocked.

    def close(self) -> None:
        """As if the process had ended."""
        os.close(self._file)


def ended_owners(folder: Path) -> Iterator[str]:
    """The names of processes that have ended. The file of each is removed when the next one is requested."""
    for path in sorted(folder.glob(f"*{_ENDING}")):
        try:
            file = os.open(path, os.O_RDWR)
        except FileNotFoundError:
            continue  # Another has just dealt with it.
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield path.name.removesuffix(_ENDING)
            path.unlink(missing_ok=True)
        except BlockingIOError:
            continue  # Alive.
        finally:
            os.close(file)
