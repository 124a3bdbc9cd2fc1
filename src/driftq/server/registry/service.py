"""The registry behind the event loop: SQL runs on a thread of its own, and the loop never waits for it.

The registry belongs to the workers of the pipeline; the server only shows and resolves its claims. It lives
in the configured database, else in SQLite's file in the folder that server and pipeline share. The server
creates neither: until a worker has made the registry, there is none, and it has no claims.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from driftq.errors import InvalidArgument, RegistryUnusable, SchemaError, SchemaOutdated, ShuttingDown
from driftq.model.options.events import EventOptions

if TYPE_CHECKING:
    from driftq.registry.sql_registry import SqlRegistry
    from driftq.sql import Database

_T = TypeVar("_T")
OWNER = "driftq server"


class RegistryService:
    """Opens the registry at the first request that finds one."""

    def __init__(self, options: EventOptions) -> None:
        self._options = options
        self._thread: ThreadPoolExecutor | None = None
        self._registry: SqlRegistry | None = None
        self._stopped = False

    async def ask(self, query: Callable[[SqlRegistry | None], _T]) -> _T:
        """The query's result, from the thread; it gets None where there is no registry.

        Raises what the query raises, DatabaseUnavailable, and RegistryUnusable.
        """
        if self._stopped:
            raise ShuttingDown
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="driftq-registry")
        return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: query(self._open()))

    def stop(self) -> None:
        """Answer the queued requests, then close. Blocks."""
        self._stopped = True
        if self._thread is not None:
            self._thread.shutdown()
        if self._registry is not None:
            self._registry.database.close()

    # The thread's side

    def _open(self) -> SqlRegistry | None:
        if self._registry is None and self._exists():
            try:
                self._registry = open_registry(self._options)
            except SchemaOutdated as outdated:
                if outdated.found:
                    raise RegistryUnusable(str(outdated)) from outdated
            except (SchemaError, InvalidArgument, ModuleNotFoundError) as problem:
                raise RegistryUnusable(str(problem)) from problem
        return self._registry

    def _exists(self) -> bool:
        file = registry_file(self._options)
        return self._options.database_url is not None or (file is not None and os.path.exists(file))


def registry_file(options: EventOptions) -> str | None:
    """SQLite's file of the registry, where no database is set; None for a server in memory."""
    return os.path.join(options.folder, "pipeline", "registry.db") if options.folder is not None else None


def open_registry(options: EventOptions) -> SqlRegistry:
    """The registry of these options; raises DatabaseUnavailable and SchemaError."""
    from driftq.registry.sql_registry import SqlRegistry
    from driftq.sql import open_database
    from driftq.sql.sqlite import MEMORY, SqliteDatabase

    database: Database = (
        SqliteDatabase(registry_file(options) or MEMORY)
        if options.database_url is None
        else open_database(options.database_url, schemas={"sequence": options.sequence_schema}, connections=2)
    )
    try:
        return SqlRegistry(database, owner=OWNER)
    except BaseException:
        database.close()
        raise
