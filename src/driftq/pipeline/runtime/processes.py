"""All processes of a driver, ended together.

Spark is three kinds of processes: our driver, its JVM, and Python workers that move to a process group of
their own. They all stay in the session that the driver was started in, so we find them by it.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")
_POLL_S = 0.02
_GIVE_UP_S = 10.0


def members(session: int) -> list[int]:
    """The living processes of a session; on systems that do not list them, its leader's process group."""
    if not _PROC.joinpath("self", "stat").exists():
        return [-session] if _answers(os.killpg, session) else []
    found = []
    for entry in _PROC.iterdir():
        if entry.name.isdigit() and _session_of(entry) == session:
            found.append(int(entry.name))
    return found


def end_session(session: int) -> None:
    """SIGKILL every process in it, until none is left. Call it before the leader is waited for.

    Until then its number is not reused. A process that is started during the kill is found in the next pass.
    A caller inside the session is killed last.
    """
    end = time.monotonic() + _GIVE_UP_S
    while (found := members(session)) and time.monotonic() < end:
        others = [process for process in found if process != os.getpid()]
        for process in others or found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)
        time.sleep(_POLL_S)


def wait_for_session(session: int, within_s: float) -> bool:
    """True as soon as it is empty."""
    end = time.monotonic() + within_s
    while members(session):
        if time.monotonic() > end:
            return False
        time.sleep(_POLL_S)
    return True


def is_alive(process: int) -> bool:
    """Whether it exists and has not ended; a zombie has ended."""
    if not _PROC.joinpath("self", "stat").exists():
        return _answers(os.kill, process)
    return _session_of(_PROC / str(process)) is not None


def mark_of(process: int) -> int | None:
    """Its start time by the kernel's count since boot; None where that is unknown."""
    try:
        stat = (_PROC / str(process) / "stat").read_text(errors="replace")
    except OSError:
        return None
    return int(stat.rpartition(")")[2].split()[19])


def _session_of(entry: Path) -> int | None:
    """None for one that has ended, waited for or not."""
    try:
        stat = entry.joinpath("stat").read_text(errors="replace")
    except OSError:
        return None
    state, _parent, _group, session = stat.rpartition(")")[2].split()[:4]
    return None if state in "ZX" else int(session)


def _answers(send: Callable[[int, int], None], number: int) -> bool:
    try:
        send(number, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
