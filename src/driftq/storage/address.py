"""A small file with the address of the server that holds a folder, for other processes that open the folder.

The lock on the log says that a process holds it; this file says where that process listens. It may be left
over from a server that was killed, so it counts only together with the lock, or with the name of this start
of the server, which stands in the second line and in the server's answers.
"""

import contextlib
import os
from pathlib import Path

_NAME = "address"


def write_address(data: str | os.PathLike[str], url: str, *, instance: str = "") -> None:
    """Write our address atomically; a reader sees the old lines or the new ones."""
    place = Path(data, _NAME)
    fresh = place.with_suffix(".new")
    fresh.write_text(f"{url}\n{instance}\n", encoding="utf-8")
    os.replace(fresh, place)


def read_address(data: str | os.PathLike[str]) -> str | None:
    return _line(data, 0)


def read_instance(data: str | os.PathLike[str]) -> str | None:
    """Which start of a server wrote the file; a server that answers with the same has this folder."""
    return _line(data, 1)


def _line(data: str | os.PathLike[str], number: int) -> str | None:
    try:
        lines = Path(data, _NAME).read_text(encoding="utf-8").split("\n")
    except OSError:
        return None
    return (lines[number].strip() or None) if number < len(lines) else None


def remove_address(data: str | os.PathLike[str]) -> None:
    with contextlib.suppress(OSError):
        Path(data, _NAME).unlink()
