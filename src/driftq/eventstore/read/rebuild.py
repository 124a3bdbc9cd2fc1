"""Rebuild the database from the segments: every sealed event is restored with its number and its position.

Events that are not sealed yet exist only in the database and cannot be restored from here. Each segment is
one transaction, so a killed rebuild continues where it was. Writers must be stopped meanwhile.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from driftq.errors import SealerReplaced, SegmentLost, UnsealedEvents
from driftq.eventstore.objects import Objects
from driftq.eventstore.options import SEALER_LEASE_MS
from driftq.eventstore.schema import event_migrations, load_queries
from driftq.eventstore.seal.lease import SealerLease
from driftq.eventstore.seal.segment import StoredEvent, decode_segment
from driftq.eventstore.stored import SegmentRange
from driftq.sql import Database, Dialect, Queries, Transaction, as_rows, prepare


def rebuild(
    database: Database,
    objects: Objects,
    *,
    owner: str,
    lease_ms: int = SEALER_LEASE_MS,
    on_segment: Callable[[SegmentRange], None] = lambda _: None,
) -> int:
    """Bring the database up to the segments; returns the last position. `on_segment` is called after each.

    Raises SealerReplaced when a sealer is at work, UnsealedEvents when the database has events of its own,
    and SegmentLost when a segment is missing or damaged; what was restored before stays.
    """
    prepare(database, event_migrations(database))
    queries = load_queries(database)
    lease = SealerLease(database, queries, owner=owner, lease_ms=lease_ms)
    if not lease.take():
        raise SealerReplaced(owner=owner, token=0)
    restored = lease.fenced(lambda transaction: _sealed_end(transaction, queries))
    for segment in objects.segments():
        if segment.last <= restored:
            continue
        if segment.first > restored + 1:
            raise SegmentLost(f"from position {restored + 1}", cause="it does not exist")
        events = _checked(decode_segment(objects.read(segment.name), name=segment.name), segment)
        fresh = SegmentRange(restored + 1, segment.last)  # Joined segments overlap what is restored.
        lease.fenced(_Restoring(queries, fresh, events[fresh.first - segment.first :]))
        restored = segment.last
        on_segment(segment)
    lease.end()
    return restored


def _sealed_end(transaction: Transaction, queries: Queries) -> int:
    """The position up to which the database agrees with the segments; drops reservations without events."""
    end = transaction.row(queries["log_end"])
    unplaced = transaction.row(queries["unplaced"])
    cut = transaction.row(queries["segments_end"])
    sealed = cut.last_position if cut and cut.sealed else 0
    if (end and end.last != sealed) or (unplaced and unplaced.events) or (cut and not cut.sealed):
        raise UnsealedEvents(sealed=sealed)
    if "forget_sequences" in queries:
        transaction.run(queries["forget_sequences"])
    return sealed


def _checked(events: list[StoredEvent], segment: SegmentRange) -> list[StoredEvent]:
    if [event.position for event in events] != list(range(segment.first, segment.last + 1)):
        raise SegmentLost(segment.name, cause="its events do not match the range in its name")
    return events


class _Restoring:
    """The transaction that restores one segment."""

    def __init__(self, queries: Queries, segment: SegmentRange, events: list[StoredEvent]) -> None:
        self._queries = queries
        self._segment = segment
        self._events = events

    def __call__(self, transaction: Transaction) -> None:
        rows: list[dict[str, Any]] = [msgspec.structs.asdict(event) for event in self._events]
        if transaction.dialect is Dialect.SQLITE:
            transaction.connection.execute(self._queries["restore"].text, rows)
        else:
            transaction.run(self._queries["restore"], g=as_rows(rows))
        transaction.run(self._queries["restore_positions"], g=as_rows(rows))
        transaction.run(
            self._queries["cut_segment"], first=self._segment.first, last=self._segment.last, sealed=1
        )
