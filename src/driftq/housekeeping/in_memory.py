"""Rounds for a log that is in memory: in a thread, because no other process can see the files.

A round costs the loop some of its time here, which a child process does not. Without it the log of a server
without a WAL would grow with everything that was ever produced.
"""

from __future__ import annotations

import threading

from driftq.errors import LogError
from driftq.housekeeping.process import Done, OnLoop
from driftq.housekeeping.round import run_round
from driftq.log.files import Folder
from driftq.model.options.limits import Limits


class HousekeeperThread:
    """Does one round at a time; what the last one has not told when the server stops is not told."""

    def __init__(self, folder: Folder, limits: Limits, on_loop: OnLoop) -> None:
        self._folder = folder
        self._limits = limits
        self._on_loop = on_loop
        self._stopped = False

    def wait_idle(self) -> None:
        """Files in memory have no earlier life."""

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
            self._on_loop(lambda: done(trouble))
