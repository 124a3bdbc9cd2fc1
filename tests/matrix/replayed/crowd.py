"""Many events in no order, twice and again, and what ordered single delivery of them leaves."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from confluent_kafka import Producer
from sqlalchemy import text

from driftq.model.options.kafka import KafkaOptions
from driftq.registry import EventKey, Handler
from driftq.registry.sql_registry import MIGRATIONS, SqlRegistry
from driftq.sql import Database, upgrade
from tests.spark.events import Event, event

KIND = "order"
DOUBLED = 0.1
_DELETING = 7
_QUEUED_MAX = 50_000
_CLAIMED_AT_ONCE = 5_000
_CLAIMS = """
SELECT handler, event_id, aggregate_type, aggregate_id, sequence_number, state
FROM {claims} ORDER BY handler, event_id
"""
_POSITIONS = """
SELECT handler, aggregate_type, aggregate_id, last_sequence
FROM {positions} ORDER BY handler, aggregate_type, aggregate_id
"""
Row = tuple[Any, ...]


@dataclass(frozen=True)
class Crowd:
    """`aggregates` with `each` events, each kept as a number until it is needed: memory stays small."""

    aggregates: int
    each: int

    @property
    def events(self) -> int:
        return self.aggregates * self.each

    def shuffled(self, *, seed: int, doubled: float) -> list[int]:
        random = Random(seed)
        numbers = list(range(self.events))
        numbers += random.sample(numbers, int(self.events * doubled))
        random.shuffle(numbers)
        return numbers

    def event(self, number: int) -> Event:
        which, sequence = number // self.each, 1 + number % self.each
        last_deletes = which % _DELETING == 0 and sequence == self.each
        return event(
            sequence,
            of=f"o-{which}",
            payload={"n": number},
            operation="delete" if last_deletes else "update",
        )

    def newest(self) -> Iterator[Row]:
        """The rows of `latest_state`, in the order of a read model's."""
        for which in sorted(range(self.aggregates), key=str):
            if which % _DELETING:
                yield KIND, f"o-{which}", self.each, {"n": which * self.each + self.each - 1}

    def totals(self) -> Iterator[Row]:
        """The rows of the sum of every payload: to such a fold a delete is an event like any other."""
        for which in sorted(range(self.aggregates), key=str):
            first = which * self.each
            yield KIND, f"o-{which}", self.each, sum(range(first, first + self.each))

    def last_events(self) -> Iterator[Row]:
        """The registry of a read model."""
        for which in sorted(range(self.aggregates), key=str):
            yield KIND, f"o-{which}", self.each, f"{KIND}/o-{which}/{self.each}"

    def deliver_in_order(self, database: Database, handler: Handler) -> None:
        """Every event once, each aggregate in its order, to a worker's registry."""
        upgrade(database, [MIGRATIONS])
        registry = SqlRegistry(database)
        for sequence in range(1, self.each + 1):
            for first in range(0, self.aggregates, _CLAIMED_AT_ONCE):
                some = range(first, min(first + _CLAIMED_AT_ONCE, self.aggregates))
                keys = [EventKey(f"{KIND}/o-{one}/{sequence}", KIND, f"o-{one}", sequence) for one in some]
                assert registry.mark_done_all(registry.claim_all(handler, keys)) == []


def send(options: KafkaOptions, topic: str, events: Iterable[Event]) -> None:
    """Each under its aggregate's id, as any producer sends it."""
    producer = Producer({"bootstrap.servers": str(options.bootstrap), "linger.ms": 50})
    for number, each in enumerate(events, start=1):
        producer.produce(topic, key=each["aggregate_id"], value=json.dumps(each))
        if number % _QUEUED_MAX == 0:
            assert producer.flush(120) == 0
    assert producer.flush(120) == 0


def registry_rows(database: Database) -> Iterator[Row]:
    """All claims and positions of a worker, but for tokens, times, attempts and who it was."""
    with database.snapshot() as snapshot:
        for query in (_CLAIMS, _POSITIONS):
            asked = snapshot.connection.execute(text(database.renderer.render(query)))
            yield from (tuple(row) for row in asked)
