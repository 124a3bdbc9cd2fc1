"""The outbox of handlers' dead letters: what their relay still has to publish, and the marks of redrives.

The relay publishes a dead letter to `dlq.<topic>` and marks it. One that is killed in between publishes it a
second time, under the same id. Each handler has one relay, that of the run which took over last: an older
run's relay finds a higher epoch and stops.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from driftq.errors import RelayFenced
from driftq.model.dead_letter import HandlerDeadLetter
from driftq.registry.dead_letters import record_dead_letters, stored_dead_letter
from driftq.registry.sql_registry import MIGRATIONS
from driftq.sql import Database, Queries, Transaction, as_rows, perform, prepare

_CHUNK = 64


class DeadLetterMark(NamedTuple):
    """What the registry knows of a published dead letter."""

    handler: str
    event_id: str
    redrives: int
    published_at: int
    redriven_at: int
    """0 while it is not redriven."""
    redriven_by: str


class DeadLetterRows:
    """The dead letters of all handlers. Safe to share between threads."""

    def __init__(self, database: Database) -> None:
        prepare(database, [MIGRATIONS])
        self._database = database
        self._queries = Queries.load("driftq.registry", database.renderer)

    def record(self, handler: str, event_ids: Sequence[str]) -> int:
        """As `record_dead_letters`, in a transaction of its own."""
        return perform(
            self._database,
            lambda transaction: record_dead_letters(transaction, self._queries, handler, event_ids),
        )

    def record_missing(self, handler: str) -> int:
        """Write the dead letters of events that an earlier version gave up; returns how many."""
        recorded = 0
        while True:
            with self._database.snapshot() as transaction:
                found = transaction.rows(self._queries["list_unrecorded"], handler=handler, most=_CHUNK)
            new = self.record(handler, [row.event_id for row in found]) if found else 0
            recorded += new
            if not new:
                return recorded

    def take_over(self, handler: str) -> "WorkerOutbox":
        """The outbox of a handler's relay. The relays of earlier runs are fenced from now on."""
        epoch = perform(
            self._database,
            lambda transaction: transaction.row(self._queries["take_over_relay"], handler=handler).epoch,
        )
        return WorkerOutbox(self._database, self._queries, handler, epoch)

    def find(self, ids: Sequence[str]) -> dict[str, DeadLetterMark]:
        """Those of these that the registry has."""
        if not ids:
            return {}
        given = as_rows([{"id": id} for id in ids])
        with self._database.snapshot() as transaction:
            rows = transaction.rows(self._queries["find_dead_letters"], g=given)
        return {id: DeadLetterMark(*mark) for id, *mark in rows}

    def count_unpublished(self) -> int:
        with self._database.snapshot() as transaction:
            return int(transaction.row(self._queries["count_unpublished"]).dead_letters)


class WorkerOutbox:
    """One handler's dead letters that are not published, for the relay of one run."""

    def __init__(self, database: Database, queries: Queries, handler: str, epoch: int) -> None:
        self._database = database
        self._queries = queries
        self._handler = handler
        self._epoch = epoch

    def pending(self, *, limit: int, after: HandlerDeadLetter | None = None) -> list[HandlerDeadLetter]:
        """The next ones, oldest first. Raises RelayFenced."""
        after_at, after_id = (0, "") if after is None else (after.at, after.id)
        with self._database.snapshot() as transaction:
            self._require(transaction.row(self._queries["read_relay_epoch"], handler=self._handler))
            rows = transaction.rows(
                self._queries["list_unpublished"],
                handler=self._handler,
                after_at=after_at,
                after_id=after_id,
                most=limit,
            )
        return [stored_dead_letter(self._handler, row) for row in rows]

    def mark_published(self, dead_letters: Sequence[HandlerDeadLetter]) -> None:
        """The topic has them. Raises RelayFenced, and then nothing is marked."""

        def mark(transaction: Transaction) -> None:
            self._require(transaction.row(self._queries["relay_epoch"], handler=self._handler))
            given = as_rows([{"id": each.id, "redrives": each.redrives} for each in dead_letters])
            transaction.run(self._queries["mark_published"], handler=self._handler, g=given)

        perform(self._database, mark)

    def _require(self, row: Any) -> None:
        current = 0 if row is None else int(row.epoch)
        if current != self._epoch:
            raise RelayFenced(f"worker {self._handler}", epoch=self._epoch, current=current)
