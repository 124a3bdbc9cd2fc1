"""Outboxes with dead letters in them, of a worker and of a projection, on either engine."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from driftq.model.dead_letter import HandlerDeadLetter
from driftq.registry import Effect, EventKey, Handler
from driftq.registry.outbox import DeadLetterRows
from driftq.registry.parking import ParkedEvent, Parking
from driftq.registry.sql_registry import MIGRATIONS, SqlRegistry
from driftq.sinks import Application, PostgresSink, ProjectionDeadLetter, SqliteSink, TopicPartition
from driftq.sinks.dead_letters import DeadLetterOutbox
from driftq.sql import Database, open_database, upgrade

KINDS = ("worker", "projection")
_numbers = itertools.count()


@dataclass(frozen=True)
class Place:
    """Plain values, so that another process finds the same outbox."""

    kind: str
    url: str
    schema: str
    handler: str = "billing"
    topic: str = "orders"

    def named(self, story: str) -> Place:
        """Another handler and another topic in the same database; no two are the same."""
        name = f"{story}_{next(_numbers)}"
        return replace(self, handler=name, topic=name)

    def fill(self, count: int) -> None:
        """Give up events at the offsets below `count`, as a worker or a projection does."""
        if self.kind == "worker":
            self._fill_registry(count)
        else:
            self._fill_read_model(count)

    def _fill_registry(self, count: int) -> None:
        with self._database() as database:
            registry, parking = SqlRegistry(database), Parking(database)
            handler = Handler(self.handler, Effect.IDEMPOTENT)
            for offset in range(count):
                key = EventKey(f"{self.handler}-{offset}", "order", f"o-{offset}", 1)
                claim = registry.claim(handler, key)
                if not claim.granted:
                    continue  # It was given up before.
                message = ParkedEvent(topic=self.topic, partition=0, offset=offset, value=f"text {offset}")
                parking.park(handler.name, [(key, message)])
                registry.mark_failed(claim, error=f"error {offset}", retryable=False)

    def _fill_read_model(self, count: int) -> None:
        model = self._sink().connect(self.handler)
        dead = [
            ProjectionDeadLetter(self.topic, 0, at, f"e-{at}", "write", f"error {at}", f"text {at}")
            for at in range(count)
        ]
        reached = {TopicPartition(self.topic, 0): count - 1}
        model.apply(Application(positions=reached, dead_letters=dead), model.take_over())
        model.close()

    @contextmanager
    def outbox(self) -> Iterator[DeadLetterOutbox]:
        """Taken over, as by a new run."""
        if self.kind == "worker":
            with self._database() as database:
                yield DeadLetterRows(database).take_over(self.handler)
        else:
            model = self._sink().connect(self.handler)
            try:
                yield model.outbox(model.take_over())
            finally:
                model.close()

    def waiting(self) -> list[HandlerDeadLetter]:
        with self.outbox() as outbox:
            return outbox.pending(limit=1_000)

    def _sink(self) -> SqliteSink | PostgresSink:
        if self.url.startswith("sqlite"):
            return SqliteSink(self.url.removeprefix("sqlite:///"))
        return PostgresSink(self.url, schema=self.schema)

    @contextmanager
    def _database(self) -> Iterator[Database]:
        database = open_database(self.url, schema=self.schema)
        try:
            upgrade(database, [MIGRATIONS])
            yield database
        finally:
            database.close()
