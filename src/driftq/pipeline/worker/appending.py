"""Sending derived events from the worker's store to the event store."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Protocol

from driftq.errors import DriftQError, SequenceConflict, TransactionConflict
from driftq.model import Event
from driftq.pipeline.worker.derived import decode_event
from driftq.pipeline.worker.timing import OutageWait
from driftq.registry.parking import DerivedRow, DerivedRows

logger = logging.getLogger("driftq.pipeline.worker")


class EventAppends(Protocol):
    """`driftq.EventStore`, or a similar object."""

    def append_all(self, events: Sequence[tuple[Event, int | None]]) -> object: ...


class DerivedAppends:
    """Sends stored derived events, oldest first. Sending twice changes nothing: each id is stored once."""

    def __init__(
        self, store: EventAppends, derived: DerivedRows, handler: str, outage_wait: OutageWait
    ) -> None:
        self._store = store
        self._derived = derived
        self._handler = handler
        self._outage_wait = outage_wait
        self.refused = 0

    def flush(self) -> None:
        """Send until nothing is left that the store accepts. While the server is unavailable, this waits."""
        while rows := self._outage_wait.ask(lambda: self._derived.unsent(self._handler)):
            if not self._all_at_once(rows):
                for row in rows:
                    self._append_row(row)

    def _all_at_once(self, rows: list[DerivedRow]) -> bool:
        try:
            self._append(rows)
        except DriftQError:
            return False  # Some event is refused: send each alone, which is safe after a part was stored.
        self._outage_wait.ask(lambda: self._derived.drop(self._handler, rows))
        return True

    def _append_row(self, row: DerivedRow) -> None:
        try:
            self._append([row])
        except DriftQError as refusal:
            logger.error(
                "the event store refused an event that was derived from %s: %s", row.source_id, refusal
            )
            self.refused += 1
            why = str(refusal)
            self._outage_wait.ask(lambda: self._derived.refuse(self._handler, row, why=why))
        else:
            self._outage_wait.ask(lambda: self._derived.drop(self._handler, [row]))

    def _append(self, rows: Sequence[DerivedRow]) -> None:
        events = [(decode_event(row.event), None) for row in rows]

        def append() -> None:
            try:
                self._store.append_all(events)
            except SequenceConflict as raced:  # An optimistic allocator: another writer took the number.
                raise TransactionConflict("the event store", cause=str(raced)) from raced

        self._outage_wait.ask(append)
