"""Rounds for a log in memory: in a thread, because no other process can see the files.

Here a round takes some of the loop's time, which a child process does not. Without rounds the log of a server
without a WAL would grow without limit.
"""

from __future__ import annotations

import threading

from driftq.errors import LogError
from driftq.housekeeping.process import CallSoon, Done
from driftq.housekeeping.round import run_round
from driftq.log.files import Folder
from driftq.model.options.limits import Limits


class HousekeeperThread:
    """Does one round at a time; the result of a round still running when the server stops is dropped."""

    def __init__(self, folder: Folder, limits: Limits, call_soon: CallSoon) -> None:
        self._folder = folder
        self._limits = limits
        self._call_soon = call_soon
        self._stopped = False

    def wait_idle(self) -> None:
        """Files in memory have no earlier process."""

    def run(self, upto: int, done: Done) -> None:
        threading.Thread(
            target=self._round, args=(upto, done), name="driftq-housekeeper", daemon=True
        ).start()

    def stop(self) -> None:
        self._stopped = True

    def _round(self, upto: int, done: Done) -> None:
        trouble: str | None = None
        try:
            run_round(self._folder, limits=self._limits, upto=upto)
        except (LogError, OSError, MemoryError) as failure:
            trouble = str(failure) or type(failure).__name__
        if not self._stopped:
            self._call_soon(lambda: done(trouble))
