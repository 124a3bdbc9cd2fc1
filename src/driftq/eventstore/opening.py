"""Opening the event store of a server; the packages that it needs are imported only here."""

from __future__ import annotations

import importlib.util
import logging
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from driftq.errors import EventStoreUnusable, InvalidArgument, SchemaError, SegmentError
from driftq.model.options.events import EventOptions
from driftq.model.time import utc

if TYPE_CHECKING:
    from driftq.eventstore import EventStore
    from driftq.eventstore.objects import BucketObjects
    from driftq.eventstore.seal.sealer import Sealer
    from driftq.sql import Database

logger = logging.getLogger("driftq.events")


@dataclass(frozen=True, slots=True)
class OpenEvents:
    """A database with the store and the sealer on it."""

    database: Database
    store: EventStore
    sealer: Sealer
    alone: bool
    """No other process can seal: this server has locked the folder."""

    def close(self) -> None:
        self.database.close()


def open_events(options: EventOptions, *, now_ms: Callable[[], int] | None = None) -> OpenEvents:
    """Open the event store of the options. Raises Unavailable when it is unreachable or unusable."""
    if importlib.util.find_spec("sqlalchemy") is None:
        raise EventStoreUnusable("SQLAlchemy is missing: install driftq[sqlite]")
    from driftq.eventstore import AllocatorMode, EventStore, MismatchMode, StoreOptions
    from driftq.eventstore.seal.sealer import Sealer

    store_options = StoreOptions(
        allocator=AllocatorMode(options.allocator) if options.allocator is not None else None,
        mismatch=MismatchMode(options.mismatch),
        sequence_schema=options.sequence_schema,
        handler_prefix=options.handler_prefix,
    )
    database = open_event_database(options)
    try:
        objects = open_event_objects(options)
        if now_ms is None:
            store = EventStore(database, options=store_options, objects=objects)
        else:
            store = EventStore(
                database, options=store_options, objects=objects, now=lambda: utc(now_ms() * 1000)
            )
        sealer = Sealer(database, objects, owner=f"{socket.gethostname()}:{os.getpid()}")
    except (SchemaError, SegmentError, InvalidArgument, OSError) as problem:
        database.close()
        raise EventStoreUnusable(str(problem)) from problem
    except BaseException:
        database.close()
        raise
    return OpenEvents(database, store, sealer, alone=options.database_url is None)


def open_event_database(options: EventOptions) -> Database:
    """The database alone, without an upgrade of its tables. Raises Unavailable."""
    from driftq.sql import open_database
    from driftq.sql.sqlite import MEMORY, SqliteDatabase

    try:
        if options.database_url is None:
            return SqliteDatabase(options.database_file or MEMORY)
        return open_database(options.database_url, schemas={"sequence": options.sequence_schema})
    except ModuleNotFoundError as missing:
        raise EventStoreUnusable(f"{missing.name} is missing: install driftq[postgres]") from missing
    except (SchemaError, InvalidArgument, OSError) as problem:
        raise EventStoreUnusable(str(problem)) from problem


def open_event_objects(options: EventOptions) -> BucketObjects | None:
    """The storage of segments; None in memory, and where the packages that write them are missing."""
    if options.objects_url is None and options.objects_folder is None:
        return None
    missing = [name for name in ("obstore", "pyarrow") if importlib.util.find_spec(name) is None]
    if missing:
        logger.warning("cannot write segments without %s: install driftq[s3]", " and ".join(missing))
        return None
    from driftq.eventstore.objects import FolderObjects, S3Access, open_objects

    if options.objects_url is None:
        return FolderObjects(Path(str(options.objects_folder)))
    return open_objects(options.objects_url, access=S3Access(endpoint=options.s3_endpoint))
