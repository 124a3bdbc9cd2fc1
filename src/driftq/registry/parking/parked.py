"""Parked events: stored, found and removed in sets.

Nobody searches all of them while events are handled. Whoever has moved an aggregate on asks for the parked
events of that aggregate, which an index gives. An operator who resolves an event moves its aggregate on
without running anything: that wakes the parked events which were waiting for it, and a worker asks for what
was woken, and for parked events whose claims came back. Only a worker that starts goes through all of them,
once, because its predecessor may have ended between a mark and the question for what follows.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec

from driftq.model.event import Aggregate
from driftq.registry.claim import SequencedEvent
from driftq.registry.sql_registry import MIGRATIONS
from driftq.sql import Database, Dialect, Queries, Transaction, as_rows, perform, prepare

_ROWS_MAX = {Dialect.SQLITE: 64, Dialect.POSTGRES: 1_000}
_BYTES_MAX = 4_000_000
"""In one statement: rows have the texts of events, of any length."""


class ParkedEvent(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An event's text, and where on a topic it came from."""

    topic: str
    partition: int
    offset: int
    value: str
    identity: str = ""
    """Of the topic: transport, cluster and topic id; empty where it is not known."""


class WaitingEvent(NamedTuple):
    """A parked event of an aggregate that has reached `last_sequence`, which is before it."""

    aggregate: Aggregate
    sequence_number: int
    last_sequence: int
    message: ParkedEvent


class ReadyEvent(NamedTuple):
    """A parked event that may be claimed, or that needs to be parked no longer."""

    event_id: str
    aggregate: Aggregate
    sequence_number: int
    woken_at: int
    message: ParkedEvent


class Parking:
    """Safe to share between threads."""

    def __init__(self, database: Database) -> None:
        prepare(database, [MIGRATIONS])
        self._database = database
        self._queries = Queries.load("driftq.registry", database.renderer)

    def park(self, handler: str, events: Sequence[tuple[SequencedEvent, ParkedEvent]]) -> None:
        """Keep these; one that is kept already stays as it is."""
        for chunk in self._chunks(events):
            perform(self._database, partial(self._park, handler=handler, events=chunk))

    def _park(
        self, transaction: Transaction, *, handler: str, events: Sequence[tuple[SequencedEvent, ParkedEvent]]
    ) -> None:
        if transaction.dialect is Dialect.POSTGRES:
            transaction.run(
                self._queries["park"], handler=handler, g=as_rows([_named(*event) for event in events])
            )
        else:
            now = transaction.now()
            by_id = sorted(events, key=lambda event: event[0].event_id)
            transaction.change_each(
                self._queries["park"], [(handler, *_named(*event).values(), now) for event in by_id]
            )

    def waiting(self, handler: str, aggregates: Sequence[Aggregate], *, most_each: int) -> list[WaitingEvent]:
        """The first parked events of each aggregate after what it has reached, in order.

        Not those that others are to settle: held by a worker, waiting for their retry, or unresolved.
        """
        with self._database.snapshot() as transaction:
            return [_waiting(row) for row in self._waiting_rows(transaction, handler, aggregates, most_each)]

    def _waiting_rows(
        self, transaction: Transaction, handler: str, aggregates: Sequence[Aggregate], most_each: int
    ) -> Iterator[Sequence[Any]]:
        query = self._queries["list_waiting"]
        if transaction.dialect is Dialect.POSTGRES:
            given = as_rows([{"of_type": kind, "of_id": name} for kind, name in aggregates])
            yield from transaction.rows(query, handler=handler, g=given, most=most_each)
        else:
            now = transaction.now()
            for kind, name in aggregates:
                yield from transaction.look_up(query, (handler, kind, name, now, most_each))

    def ready(self, handler: str, *, limit: int = 500) -> Iterator[list[ReadyEvent]]:
        """All that may be claimed, page by page, by aggregate and sequence; each is read once."""
        after = ReadyEvent(
            "", Aggregate("", ""), 0, 0, ParkedEvent(topic="", partition=0, offset=0, value="")
        )
        while page := self._listed(
            "list_ready",
            handler,
            limit=limit,
            after_id=after.aggregate.id,
            after_type=after.aggregate.type,
            after_sequence=after.sequence_number,
            after_event=after.event_id,
        ):
            yield page
            after = page[-1]

    def woken(self, handler: str, *, limit: int = 500) -> list[ReadyEvent]:
        """Those that somebody made ready who runs nothing."""
        return self._listed("list_woken", handler, limit=limit)

    def returned(self, handler: str, *, limit: int = 500) -> list[ReadyEvent]:
        """Those whose claims were requeued or given back, are due again, or were left by ended workers."""
        return self._listed("list_returned", handler, limit=limit)

    def rest(self, handler: str, events: Sequence[ReadyEvent]) -> None:
        """Nothing can be done about these, as they were listed: do not list them as woken again."""
        given = as_rows([{"id": event.event_id, "woken_at": event.woken_at} for event in events])
        perform(
            self._database,
            lambda transaction: transaction.run(self._queries["rest"], handler=handler, g=given),
        )

    def unpark(
        self, handler: str, event_ids: Sequence[str], *, transaction: Transaction | None = None
    ) -> None:
        """These are settled. One that is not parked is left out."""
        if transaction is not None:
            self._unpark(transaction, handler=handler, event_ids=event_ids)
            return
        for start in range(0, len(event_ids), self._rows_max):
            chunk = event_ids[start : start + self._rows_max]
            perform(self._database, partial(self._unpark, handler=handler, event_ids=chunk))

    def _unpark(self, transaction: Transaction, *, handler: str, event_ids: Sequence[str]) -> None:
        by_id = sorted(event_ids)
        if transaction.dialect is Dialect.POSTGRES:
            given = as_rows([{"id": event_id} for event_id in by_id])
            transaction.run(self._queries["unpark"], handler=handler, g=given)
        else:
            transaction.change_each(self._queries["unpark"], [(handler, event_id) for event_id in by_id])

    def count(self, handler: str) -> int:
        """How many wait, dead letters included."""
        with self._database.snapshot() as transaction:
            return int(transaction.row(self._queries["count_parked"], handler=handler).events)

    def _listed(self, query: str, handler: str, *, limit: int, **given: Any) -> list[ReadyEvent]:
        with self._database.snapshot() as transaction:
            rows = transaction.rows(self._queries[query], handler=handler, most=limit, **given)
        return [_ready(row) for row in rows]

    @property
    def _rows_max(self) -> int:
        return _ROWS_MAX[self._database.dialect]

    def _chunks(
        self, events: Sequence[tuple[SequencedEvent, ParkedEvent]]
    ) -> Iterator[list[tuple[SequencedEvent, ParkedEvent]]]:
        chunk: list[tuple[SequencedEvent, ParkedEvent]] = []
        size = 0
        for event in events:
            chunk.append(event)
            size += len(event[1].value)
            if len(chunk) == self._rows_max or size >= _BYTES_MAX:
                yield chunk
                chunk, size = [], 0
        if chunk:
            yield chunk


def _waiting(row: Sequence[Any]) -> WaitingEvent:
    kind, name, sequence, last_sequence, *place = row
    return WaitingEvent(Aggregate(kind, name), sequence, last_sequence, _message(*place))


def _ready(row: Sequence[Any]) -> ReadyEvent:
    event_id, kind, name, sequence, woken_at, *place = row
    return ReadyEvent(event_id, Aggregate(kind, name), sequence, woken_at, _message(*place))


def _message(topic: str, partition: int, offset: int, value: str, identity: str) -> ParkedEvent:
    return ParkedEvent(topic=topic, partition=partition, offset=offset, value=value, identity=identity)


def _named(event: SequencedEvent, parked: ParkedEvent) -> dict[str, str | int | None]:
    """As the query calls them, in the order of the table's columns."""
    return {
        "id": event.event_id,
        "of_type": event.aggregate_type,
        "of_id": event.aggregate_id,
        "place": event.sequence_number,
        "topic": parked.topic,
        "topic_partition": parked.partition,
        "topic_offset": parked.offset,
        "value": parked.value,
        "topic_identity": parked.identity,
    }
