"""Events that wait outside their topic, and events that wait for the event store.

A reader of a topic advances only past settled events. An event that cannot be settled now, because an earlier
one is missing or an operator has to resolve its effect, is *parked*: stored with its text in the registry's
database, so that the reader can advance and a worker handles the event when it is ready. Dead letters are
parked as well, because one that is requeued must still have its text.

Derived events are kept in the transaction that marks their source, and dropped when the event store has them:
they are appended if and only if the source is done.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from driftq.registry.claim import SequencedEvent
from driftq.registry.sql_registry import MIGRATIONS
from driftq.sql import Database, Queries, Transaction, as_rows, perform, prepare, storable

_CHUNK = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedEvent:
    """An event's text, and where on a topic it came from."""

    topic: str
    partition: int
    offset: int
    value: str


class DerivedRow(NamedTuple):
    """One derived event that the event store has not confirmed."""

    source_id: str
    number: int
    event: str


class Parking:
    """Safe to share between threads."""

    def __init__(self, database: Database) -> None:
        prepare(database, [MIGRATIONS])
        self._database = database
        self._queries = Queries.load("driftq.registry", database.renderer)

    def park(self, handler: str, events: Sequence[tuple[SequencedEvent, ParkedEvent]]) -> None:
        """Keep these; one that is kept already stays as it is."""
        for start in range(0, len(events), _CHUNK):
            given = as_rows([_row(*one) for one in events[start : start + _CHUNK]])

            def insert(transaction: Transaction, given: str = given) -> int:
                return transaction.run(self._queries["park"], handler=handler, g=given)

            perform(self._database, insert)

    def ready(
        self, handler: str, *, source: tuple[str, int] | None = None, limit: int = 500
    ) -> list[ParkedEvent]:
        """Those that may be claimed now, of one topic and partition or of all, lower sequences first."""
        topic, partition = source or ("", 0)
        with self._database.snapshot() as transaction:
            rows = transaction.rows(
                self._queries["list_ready"],
                handler=handler,
                anywhere=int(source is None),
                topic=topic,
                topic_partition=partition,
                most=limit,
            )
        return [
            ParkedEvent(
                topic=row.topic, partition=row.topic_partition, offset=row.topic_offset, value=row.value
            )
            for row in rows
        ]

    def unpark(self, handler: str, event_id: str) -> None:
        """It is settled."""
        perform(
            self._database,
            lambda transaction: transaction.run(self._queries["unpark"], handler=handler, event_id=event_id),
        )

    def count(self, handler: str) -> int:
        """How many wait, dead letters included."""
        with self._database.snapshot() as transaction:
            return int(transaction.row(self._queries["count_parked"], handler=handler).events)

    def keep_derived(
        self, transaction: Transaction, handler: str, *, source_id: str, events: Sequence[str]
    ) -> None:
        """Kept or dropped with the transaction."""
        given = as_rows([{"place": index, "event": event} for index, event in enumerate(events)])
        transaction.run(self._queries["keep_derived"], handler=handler, source_id=source_id, g=given)

    def derived(self, handler: str, *, limit: int = 500) -> list[DerivedRow]:
        """Those that the event store has not got, as far as is known."""
        with self._database.snapshot() as transaction:
            rows = transaction.rows(self._queries["list_derived"], handler=handler, most=limit)
        return [DerivedRow(*row) for row in rows]

    def drop_derived(self, handler: str, rows: Sequence[DerivedRow]) -> None:
        """The event store has them."""

        def delete(transaction: Transaction) -> None:
            for row in rows:
                key = {"source_id": row.source_id, "place": row.number}
                transaction.run(self._queries["drop_derived"], handler=handler, **key)

        perform(self._database, delete)

    def refuse_derived(self, handler: str, row: DerivedRow, *, why: str) -> None:
        """The event store will never take it: kept for people, and not sent again."""
        key = {"source_id": row.source_id, "place": row.number}
        perform(
            self._database,
            lambda transaction: transaction.run(
                self._queries["refuse_derived"], handler=handler, why=storable(why) or "refused", **key
            ),
        )


def _row(event: SequencedEvent, parked: ParkedEvent) -> dict[str, str | int | None]:
    return {
        "id": event.event_id,
        "of_type": event.aggregate_type,
        "of_id": event.aggregate_id,
        "place": event.sequence_number,
        "topic": parked.topic,
        "topic_partition": parked.partition,
        "topic_offset": parked.offset,
        "value": parked.value,
    }
