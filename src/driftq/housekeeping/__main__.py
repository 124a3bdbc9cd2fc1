"""`python -m driftq.housekeeping ERRAND`: one round, started by a server; dies with it."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sqlite3
import sys
from typing import Any

from driftq.errors import LogError
from driftq.housekeeping.observers import make_projections
from driftq.housekeeping.process import LOCK
from driftq.housekeeping.round import run_round
from driftq.log.disk import OsFolder
from driftq.model.options.limits import Limits

_PR_SET_PDEATHSIG = 1


def main(argv: list[str]) -> int:
    arguments: dict[str, Any] = json.loads(argv[0])
    _die_with(arguments["parent"])
    os.nice(19)
    try:
        # Held until this process ends, however it ends: two rounds at once would undo each other's work.
        lock = os.open(os.path.join(arguments["folder"], LOCK), os.O_RDWR | os.O_CREAT, 0o640)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        folder = OsFolder(arguments["folder"])
        run_round(
            folder,
            limits=Limits(**arguments["limits"]),
            upto=arguments["upto"],
            projections=make_projections(folder, tables=arguments["tables"], history=arguments["history"]),
        )
    except (LogError, OSError, sqlite3.Error) as failure:
        sys.stderr.write(f"{failure}\n")
        return 1
    return 0


def _die_with(parent: int) -> None:
    """Work for a server that has ended could conflict with the next one's."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
