"""Who is alive on this machine: each process keeps a file locked for as long as it lives.

A claim of a process that died is free when its lease ends, which may be a quarter of an hour. But the
operating system lets go of a lock at the very moment when its process ends, however it ends. So whoever can
take the lock of a file here knows that its process is gone, and need not wait.

A process on another machine has no file here, and one that left a forked child behind still counts as
alive: then there is the lease.
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
        hidden.rename(self._path)  # Nobody sees it unlocked.

    def close(self) -> None:
        """As if the process had ended."""
        os.close(self._file)


def departed(folder: Path) -> Iterator[str]:
    """The names whose processes are gone. Each is forgotten when the next one is asked for."""
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
