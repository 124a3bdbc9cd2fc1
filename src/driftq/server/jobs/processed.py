"""Removes rows of the processed-job registry whose time is over, in the databases that the server knows.

These are the database of `DRIFTQ_DATABASE_URL`, or the files in the server's folder. The registry of another
database is cleaned by the worker that is given it: `Jobs(…, processed=…)`. A database without the registry's
tables, or with tables of another release, is left alone.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

from driftq.errors import DriftQError, SchemaError
from driftq.model.options.events import EventOptions

if TYPE_CHECKING:
    from driftq.sql import Database

logger = logging.getLogger("driftq.jobs")

INTERVAL_S = 3_600.0


class ProcessedSweeper:
    """A thread that sweeps at its start, and then every hour."""

    def __init__(self, options: EventOptions, *, interval_s: float = INTERVAL_S) -> None:
        self._options = options
        self._interval_s = interval_s
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Nothing is started where there is no database, or no driver for it."""
        if self._options.folder is None and self._options.database_url is None:
            return
        if importlib.util.find_spec("sqlalchemy") is None:
            return
        self._thread = threading.Thread(target=self._work, name="driftq-processed", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Waits for the step under way."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def _work(self) -> None:
        while True:
            self.sweep()
            if self._stopping.wait(self._interval_s):
                return

    def sweep(self) -> int:
        """Remove what is over; how many rows."""
        removed = 0
        for url in self._urls():
            try:
                removed += self._sweep_one(url)
            except (DriftQError, SchemaError, OSError) as problem:
                logger.info("processed jobs were not swept: %s", problem)
        return removed

    def _urls(self) -> Iterator[str]:
        folder = self._options.folder
        if self._options.database_url is not None:
            yield self._options.database_url
        elif self._options.database_file is not None and os.path.exists(self._options.database_file):
            yield f"sqlite:///{self._options.database_file}"
        if folder is not None and os.path.exists(f"{folder}/pipeline/registry.db"):
            yield f"sqlite:///{folder}/pipeline/registry.db"

    def _sweep_one(self, url: str) -> int:
        from driftq.sql import open_database

        database = open_database(url, connections=1)
        try:
            return self._sweep_steps(database)
        finally:
            database.close()

    def _sweep_steps(self, database: Database) -> int:
        from driftq.registry.processed_jobs import STEP_ROWS, forget_expired_jobs

        removed = 0
        while not self._stopping.is_set():
            count = forget_expired_jobs(database)
            removed += count
            if count < STEP_ROWS:
                break
        if removed:
            logger.info("%d rows of processed jobs were removed: their time was over", removed)
        return removed
