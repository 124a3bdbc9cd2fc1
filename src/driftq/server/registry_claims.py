"""The numbers of claims in the registry, for metrics: counted in a thread, seldom, and never waited for long.

The registry belongs to the pipeline: its tables may be missing or in a database that is away, and then there
are no numbers. Only claims that are not finished are counted, which an index covers.
"""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Self

from driftq.errors import DriftQError, SchemaError
from driftq.model.options.events import EventOptions

if TYPE_CHECKING:
    from driftq.sql import Database

logger = logging.getLogger("driftq.events")

COUNT_EVERY_S = 15.0
PATIENCE_S = 1.0
"""How long a scrape waits for a count; a later one finds the result."""


class RegistryClaims:
    """Counts on request, at most every `COUNT_EVERY_S`."""

    def __init__(self, options: EventOptions, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._options = options
        self._monotonic = monotonic
        self._counted_at: float | None = None
        self._counts: dict[str, int] = {}
        self._counting: asyncio.Task[None] | None = None

    @classmethod
    def of(cls, options: EventOptions | None) -> Self | None:
        """None where nothing is stored outside of memory, or where the packages for it are missing."""
        if options is None or (options.database_url is None and options.folder is None):
            return None
        return cls(options) if importlib.util.find_spec("sqlalchemy") is not None else None

    async def count(self) -> dict[str, int]:
        """Claims by state; empty where there is no registry, or while its database is away."""
        is_due = self._counted_at is None or self._monotonic() - self._counted_at >= COUNT_EVERY_S
        if self._counting is None and is_due:
            self._counting = asyncio.get_running_loop().create_task(self._count())
        if self._counting is not None:
            await asyncio.wait({self._counting}, timeout=PATIENCE_S)
        return self._counts

    async def _count(self) -> None:
        try:
            self._counts = await asyncio.to_thread(self._read)
        except (DriftQError, SchemaError, OSError) as problem:
            self._counts = {}
            logger.debug("the registry's claims cannot be counted: %s", problem)
        finally:
            self._counted_at = self._monotonic()
            self._counting = None

    def _read(self) -> dict[str, int]:
        from driftq.registry.admin import open_counts
        from driftq.registry.sql_registry import MIGRATIONS
        from driftq.sql import Queries
        from driftq.sql.migrations import require

        database = self._open()
        if database is None:
            return {}
        try:
            require(database, [MIGRATIONS])
            with database.snapshot() as transaction:
                queries = Queries.load("driftq.registry", database.renderer)
                return {state.value: count for state, count in open_counts(transaction, queries).items()}
        finally:
            database.close()

    def _open(self) -> Database | None:
        """The registry's database; None where SQLite's file of it was never made."""
        from driftq.sql import open_database
        from driftq.sql.sqlite import SqliteDatabase

        options = self._options
        if options.database_url is not None:
            return open_database(
                options.database_url, schemas={"sequence": options.sequence_schema}, connections=1
            )
        file = os.path.join(options.folder or "", "pipeline", "registry.db")
        return SqliteDatabase(file) if os.path.exists(file) else None
