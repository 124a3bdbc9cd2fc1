"""How far each handler has come on the partitions of its topics.

A position is the next offset to read: every event before it is done, a dead letter, or parked in the same
database. It belongs to the topic's identity, because offsets mean nothing for another topic of the same name.
A worker whose database is restored from a backup goes on from the positions of that backup, and no event
between the two is left out.
"""

from collections.abc import Mapping
from typing import NamedTuple

from driftq.registry.sql_registry import MIGRATIONS
from driftq.sql import Database, Queries, as_rows, perform, prepare


class AppliedPartition(NamedTuple):
    """A partition of the topic that has this identity."""

    identity: str
    topic: str
    partition: int


class AppliedPositions:
    """Safe to share between threads."""

    def __init__(self, database: Database) -> None:
        prepare(database, [MIGRATIONS])
        self._database = database
        self._queries = Queries.load("driftq.registry", database.renderer)

    def positions(self, handler: str) -> dict[AppliedPartition, int]:
        """The next offset of each partition that the handler has ever finished a batch of."""
        with self._database.snapshot() as transaction:
            rows = transaction.rows(self._queries["list_applied"], handler=handler)
        return {AppliedPartition(*place): next_offset for *place, next_offset in rows}

    def advance(self, handler: str, positions: Mapping[AppliedPartition, int]) -> None:
        """Everything before these offsets is settled. One statement, and no position moves back."""
        given = [
            {
                "topic_identity": place.identity,
                "topic": place.topic,
                "topic_partition": place.partition,
                "next_offset": next_offset,
            }
            for place, next_offset in positions.items()
        ]
        if given:
            perform(
                self._database,
                lambda transaction: transaction.run(
                    self._queries["advance_applied"], handler=handler, g=as_rows(given)
                ),
            )
