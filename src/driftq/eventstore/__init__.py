"""Events of aggregates: appended under a strict rule, numbered without gaps, kept in plain Parquet.

    database = open_database("sqlite:///events.db", schemas=options.schemas)
    store = EventStore(database, objects=open_objects("file:///srv/events"))
    store.append([Append(Event(...), expected_seq=3)])

SQL decides, object storage keeps: `seal.sealer` gives events their log position and writes the segments.

Names are loaded when first used: a reader of segments, such as Spark's Python processes, needs no SQL.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from driftq.eventstore.options import AllocatorMode, MismatchMode, SealOptions, StoreOptions
    from driftq.eventstore.outcome import (
        AggregatePage,
        Append,
        Appended,
        EventFilter,
        LogPage,
        Refused,
        StoredPage,
        TimeMark,
        TimePage,
    )
    from driftq.eventstore.schema import event_migrations
    from driftq.eventstore.store import PAGE_EVENTS, PAGE_EVENTS_MAX, EventStore

__all__ = [
    "PAGE_EVENTS",
    "PAGE_EVENTS_MAX",
    "AggregatePage",
    "AllocatorMode",
    "Append",
    "Appended",
    "EventFilter",
    "EventStore",
    "LogPage",
    "MismatchMode",
    "Refused",
    "SealOptions",
    "StoreOptions",
    "StoredPage",
    "TimeMark",
    "TimePage",
    "event_migrations",
]

_HOMES = {
    "options": {"AllocatorMode", "MismatchMode", "SealOptions", "StoreOptions"},
    "outcome": {
        "AggregatePage",
        "Append",
        "Appended",
        "EventFilter",
        "LogPage",
        "Refused",
        "StoredPage",
        "TimeMark",
        "TimePage",
    },
    "schema": {"event_migrations"},
    "store": {"PAGE_EVENTS", "PAGE_EVENTS_MAX", "EventStore"},
}


def __getattr__(name: str) -> object:
    for home, names in _HOMES.items():
        if name in names:
            globals()[name] = value = getattr(import_module(f"{__name__}.{home}"), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
