"""A message's history: its deliveries, its dead letters, and its origin."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from driftq.core.records import (
    CAUSE_EXPIRED,
    CAUSE_NACKED,
    CAUSE_RELEASED,
    CAUSE_UNSTARTED,
    SETTLED_BY_ACK,
    SETTLED_DEAD,
    SETTLED_SKIPPED,
    MessagesStored,
    unpack_array,
)
from driftq.model import Envelope
from driftq.storage.entry import decode_entry

if TYPE_CHECKING:
    import sqlite3

ENDINGS = {
    CAUSE_NACKED: "nacked",
    CAUSE_EXPIRED: "expired",
    CAUSE_RELEASED: "released",
    CAUSE_UNSTARTED: "unstarted",
}
SETTLEMENTS = {SETTLED_BY_ACK: "acked", SETTLED_DEAD: "dead", SETTLED_SKIPPED: "passed"}


class MessageQuery(NamedTuple):
    """A message whose history is requested."""

    topic: int
    partition: int
    ordinal: int
    offset: int


class DeliveryAttempt(msgspec.Struct, gc=False):
    """One delivery of a message; the attempt 0 is a settlement without any."""

    owner: str
    delivered_at: int
    lease_until: int
    outcome: str | None = None
    outcome_at: int | None = None
    reason: str | None = None


class DeadLetterEntry(msgspec.Struct, gc=False):
    """A group's dead letter, and its redrive if there was one."""

    group: str
    attempts: int
    reason: str
    last_error: str
    at: int
    dlq_topic: int
    dlq_offset: int
    redriven_at: int | None = None
    redriven_by: str | None = None
    redriven_offset: int | None = None


class RunStep(msgspec.Struct, frozen=True):
    """A message of a run."""

    topic: int
    partition: int
    offset: int
    step_id: str | None
    parent_step_id: str | None
    produced_at: int


class MessageHistory:
    """Everything that happened to one message."""

    def __init__(self) -> None:
        self.attempts: dict[tuple[str, int], DeliveryAttempt] = {}
        self.letters: list[DeadLetterEntry] = []
        self.redriven_from: int | None = None
        """The offset of the dead letter that it was redriven from."""
        self._newest: dict[str, int] = {}

    def begin(self, group: str, attempt: int, delivery: DeliveryAttempt) -> None:
        self.attempts[group, attempt] = delivery
        self._newest[group] = attempt

    def newest(self, group: str) -> int:
        """Number of the group's latest delivery; 0 when it had none."""
        return self._newest.get(group, 0)

    def end(self, group: str, outcome: str, at: int, reason: str | None) -> None:
        attempt = self.newest(group) if outcome != "passed" else 0
        delivery = self.attempts.get((group, attempt))
        if delivery is None:
            delivery = self.attempts[group, attempt] = DeliveryAttempt("", at, at)
        delivery.outcome, delivery.outcome_at, delivery.reason = outcome, at, reason


def envelopes_with(
    mark: bytes, record: MessagesStored, payload: memoryview, blob_at: int
) -> Iterator[tuple[int, int, Envelope]]:
    """Partition, offset and envelope of the messages whose stored form has these bytes in it."""
    lengths = unpack_array("I", record.lengths)
    blob = bytes(payload[blob_at : blob_at + sum(lengths)])
    if mark not in blob:
        return
    numbers = unpack_array("H", record.partitions) if record.partition < 0 else None
    start = 0
    for slot, length in enumerate(lengths):
        entry = blob[start : start + length]
        start += length
        if mark not in entry:
            continue
        try:
            envelope = decode_entry(entry).envelope
        except msgspec.DecodeError:
            continue  # In one of the broker's own topics, whose entries are not messages.
        if envelope is not None:
            number = record.partition if numbers is None else numbers[slot]
            yield number, record.first_offset + slot, envelope


def read_histories(
    database: sqlite3.Connection | None, wanted: Iterable[MessageQuery]
) -> dict[MessageQuery, MessageHistory]:
    """These messages in the history."""
    return {one: _read_history(database, one) if database is not None else MessageHistory() for one in wanted}


def _read_history(database: sqlite3.Connection, wanted: MessageQuery) -> MessageHistory:
    past = MessageHistory()
    where = 'WHERE topic = ? AND "partition" = ? AND "offset" = ?'
    place = (wanted.topic, wanted.partition, wanted.offset)
    columns = '"group", attempt, owner, delivered_at, lease_until, outcome, outcome_at, reason'
    found = f"SELECT {columns} FROM deliveries {where} ORDER BY delivered_at, attempt"
    for group, attempt, *rest in database.execute(found, place):
        if attempt:
            past.begin(group, attempt, DeliveryAttempt(*rest))
        else:
            past.attempts[group, attempt] = DeliveryAttempt(*rest)
    columns = '"group", attempts, reason, last_error, at, dlq_topic, dlq_offset'
    columns += ", redriven_at, redriven_by, redriven_offset"
    for row in database.execute(f"SELECT {columns} FROM letters {where} ORDER BY at, dlq_offset", place):
        past.letters.append(DeadLetterEntry(*row))
    came = database.execute(
        "SELECT dlq_offset FROM letters WHERE topic = ? AND redriven_offset = ?",
        (wanted.topic, wanted.offset),
    ).fetchone()
    past.redriven_from = came[0] if came is not None else None
    return past


def read_steps(database: sqlite3.Connection | None, run_id: str) -> list[RunStep]:
    """This run in the history."""
    if database is None:
        return []
    columns = 'topic, "partition", "offset", step_id, parent_step_id, produced_at'
    return [
        RunStep(*row) for row in database.execute(f"SELECT {columns} FROM steps WHERE run_id = ?", (run_id,))
    ]
