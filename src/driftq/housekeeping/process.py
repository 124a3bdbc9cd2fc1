"""The housekeeper as a child process: started for each round, watched by a thread, harmless when it dies."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Protocol

from driftq.errors import LogLocked
from driftq.log.files import Folder
from driftq.model.options.limits import Limits

LOCK = "housekeeper.lock"

logger = logging.getLogger("driftq.housekeeping")
_ORPHAN_S = 10.0

Done = Callable[[str | None], None]
"""Gets the problem, or None when a new manifest is in place."""
CallSoon = Callable[[Callable[[], None]], None]
"""Schedules a call on the loop, from any thread."""


class Housekeeper(Protocol):
    """Does rounds of housekeeping away from the loop."""

    def wait_idle(self) -> None:
        """Return when no round of an earlier process can change the folder any more."""

    def run(self, upto: int, done: Done) -> None:
        """Do a round up to the end of this segment; `done` is called on the loop. One at a time."""

    def stop(self) -> None:
        """Stop the current round; it can be repeated later."""


NewHousekeeper = Callable[[Folder, Limits, CallSoon], Housekeeper]


class HousekeeperProcess:
    """`python -m driftq.housekeeping`, once a round."""

    def __init__(
        self,
        folder: str,
        limits: Limits,
        *,
        call_soon: CallSoon,
        tables: str | None = None,
        history: str | None = None,
    ) -> None:
        self._folder = os.path.abspath(folder)
        self._limits = limits
        self._call_soon = call_soon
        self._tables = tables and os.path.abspath(tables)
        self._history = history and os.path.abspath(history)
        self._process: subprocess.Popen[str] | None = None
        self._stopped = False

    def wait_idle(self) -> None:
        descriptor = os.open(os.path.join(self._folder, LOCK), os.O_RDWR | os.O_CREAT, 0o640)
        try:
            end = time.monotonic() + _ORPHAN_S
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return
                except BlockingIOError:
                    if time.monotonic() > end:
                        raise LogLocked(f"{self._folder} (its housekeeper)") from None
                    time.sleep(0.01)
        finally:
            os.close(descriptor)

    def run(self, upto: int, done: Done) -> None:
        arguments = {
            "folder": self._folder,
            "upto": upto,
            "limits": asdict(self._limits),
            "parent": os.getpid(),
            "tables": self._tables,
            "history": self._history,
        }
        # The thread lives as long as the child: the kernel ends a child whose parent thread ends.
        threading.Thread(
            target=self._watch, args=(arguments, done), name="driftq-housekeeper", daemon=True
        ).start()

    def _watch(self, arguments: dict[str, object], done: Done) -> None:
        trouble: str | None = None
        try:
            command = [sys.executable, "-m", "driftq.housekeeping", json.dumps(arguments)]
            self._process = subprocess.Popen(  # noqa: S603 - this interpreter, with arguments of ours
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            if self._stopped:
                self._process.kill()
            _, said = self._process.communicate()
            if self._process.returncode:
                trouble = said.strip()[-2000:] or f"it ended with {self._process.returncode}"
            elif said:
                logger.warning("%s", said.strip()[-2000:])
        except OSError as error:
            trouble = str(error)
        self._process = None
        if not self._stopped:
            self._call_soon(lambda: done(trouble))

    def stop(self) -> None:
        self._stopped = True
        process = self._process
        if process is not None:
            process.kill()
