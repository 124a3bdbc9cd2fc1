"""Where the server that holds a folder listens: one line in a file, for those who come to the same folder.

The lock on the log says that somebody holds it; this file says who can be asked. It may be left over from a
server that was killed, so it counts only together with the lock.
"""

import contextlib
import os
from pathlib import Path

_NAME = "address"


def write_address(data: str | os.PathLike[str], url: str) -> None:
    """Say where we listen; whoever reads sees the old line or the new one."""
    place = Path(data, _NAME)
    fresh = place.with_suffix(".new")
    fresh.write_text(url + "\n", encoding="utf-8")
    os.replace(fresh, place)


def read_address(data: str | os.PathLike[str]) -> str | None:
    try:
        return Path(data, _NAME).read_text(encoding="utf-8").strip() or None
    except OSError:
        return None


def remove_address(data: str | os.PathLike[str]) -> None:
    with contextlib.suppress(OSError):
        Path(data, _NAME).unlink()
