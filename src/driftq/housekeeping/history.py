"""The history of deliveries: who got which message when, and what became of it; and which run it belongs to.

A projection of the log in SQLite, complete up to the last sealed segment. Writing the same records again
changes nothing, so a round that died may be done again. Rows go when their messages go.
"""

from __future__ import annotations

import sqlite3

import msgspec

from driftq.core.records import (
    CAUSE_EXPIRED,
    CAUSE_NACKED,
    CAUSE_RELEASED,
    DeliveriesEnded,
    LeaseExtended,
    MessagesDelivered,
    MessagesSettled,
    MessagesStored,
    Record,
    unpack_array,
)
from driftq.core.state import State
from driftq.server.entry import decode_entry

SCHEMA = """
CREATE TABLE IF NOT EXISTS deliveries (
    topic INTEGER NOT NULL,
    "partition" INTEGER NOT NULL,
    "offset" INTEGER NOT NULL,
    "group" TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    owner TEXT NOT NULL,
    delivered_at INTEGER NOT NULL,
    lease_until INTEGER NOT NULL,
    outcome TEXT,
    outcome_at INTEGER,
    reason TEXT,
    PRIMARY KEY (topic, "partition", "offset", "group", attempt)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS steps (
    run_id TEXT NOT NULL,
    topic INTEGER NOT NULL,
    "partition" INTEGER NOT NULL,
    "offset" INTEGER NOT NULL,
    step_id TEXT,
    parent_step_id TEXT,
    produced_at INTEGER NOT NULL,
    PRIMARY KEY (run_id, topic, "partition", "offset")
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS steps_by_place ON steps (topic, "partition", "offset");
CREATE TABLE IF NOT EXISTS topics (topic INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS progress (one INTEGER PRIMARY KEY CHECK (one = 1), segment INTEGER NOT NULL);
"""

_OUTCOMES = {CAUSE_NACKED: "nacked", CAUSE_EXPIRED: "expired", CAUSE_RELEASED: "released"}
_Key = tuple[int, int, int, str, int]


class Attempt(msgspec.Struct, gc=False):
    """One delivery of a message."""

    owner: str
    delivered_at: int
    lease_until: int
    outcome: str | None = None
    outcome_at: int | None = None
    reason: str | None = None


class History:
    """Gathers what a round shows it and writes it in one transaction."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._begun: dict[_Key, Attempt] = {}
        self._ended: list[tuple[str, int, str | None, int, int, int, str, int]] = []
        self._extended: list[tuple[int, int, int, int, str, int]] = []
        self._steps: list[tuple[str, int, int, int, str | None, str | None, int]] = []

    def see(self, state: State, record: Record, payload: memoryview, blob_at: int) -> None:
        match record:
            case MessagesStored():
                self._stored(record, payload, blob_at)
            case MessagesDelivered():
                self._delivered(state, record)
            case MessagesSettled():
                for delta in unpack_array("I", record.deltas):
                    self._end(state, record, record.base + delta, "acked", None)
            case DeliveriesEnded():
                for ended in record.ended:
                    self._end(state, record, ended.ordinal, _OUTCOMES[record.cause], ended.error or None)
            case LeaseExtended():
                key = self._key(state, record.group, record.partition, record.ordinal)
                until = record.at + record.lease_ms
                known = self._begun.get(key)
                if known is not None:
                    known.lease_until = until
                else:
                    self._extended.append((until, *key))

    def _stored(self, record: MessagesStored, payload: memoryview, blob_at: int) -> None:
        lengths = unpack_array("I", record.lengths)
        blob = bytes(payload[blob_at : blob_at + sum(lengths)])
        if b'"run_id"' not in blob:
            return
        numbers = unpack_array("H", record.partitions) if record.partition < 0 else None
        start = 0
        for slot, length in enumerate(lengths):
            entry = blob[start : start + length]
            start += length
            envelope = decode_entry(entry).envelope if b'"run_id"' in entry else None
            if envelope is not None and envelope.run_id:
                number = record.partition if numbers is None else numbers[slot]
                place = (record.topic, number, record.first_offset + slot)
                self._steps.append(
                    (envelope.run_id, *place, envelope.step_id, envelope.parent_step_id, record.at)
                )

    def _delivered(self, state: State, record: MessagesDelivered) -> None:
        group = state.groups_by_id[record.group]
        progress = group.partitions[record.partition]
        topic = state.topics[group.topic].id
        offset_at = progress.index.offset_at
        for fresh in record.fresh:
            until = record.at + fresh.lease_ms
            for ordinal in range(fresh.start, fresh.stop, fresh.step):
                key = (topic, record.partition, offset_at(ordinal), group.name, 1)
                self._begun[key] = Attempt(fresh.owner, record.at, until)
        for again in record.again:
            for ordinal in again.ordinals:
                attempt = progress.attempts.get(ordinal, 1) + 1
                key = (topic, record.partition, offset_at(ordinal), group.name, attempt)
                self._begun[key] = Attempt(again.owner, record.at, record.at + again.lease_ms)

    def _key(self, state: State, group_id: int, partition: int, ordinal: int) -> _Key:
        group = state.groups_by_id[group_id]
        progress = group.partitions[partition]
        topic = state.topics[group.topic].id
        return (topic, partition, progress.index.offset_at(ordinal), group.name, progress.attempt_of(ordinal))

    def _end(
        self,
        state: State,
        record: MessagesSettled | DeliveriesEnded,
        ordinal: int,
        outcome: str,
        reason: str | None,
    ) -> None:
        key = self._key(state, record.group, record.partition, ordinal)
        known = self._begun.get(key)
        if known is None:
            self._ended.append((outcome, record.at, reason, *key))
        else:
            known.outcome, known.outcome_at, known.reason = outcome, record.at, reason

    def finish(self, state: State, *, upto: int) -> None:
        with open_history(self._path) as database:
            self._write(database)
            _forget_dropped(database, state)
            database.execute(
                "INSERT INTO progress VALUES (1, ?) ON CONFLICT DO UPDATE SET segment = excluded.segment",
                (upto,),
            )
        database.execute("PRAGMA incremental_vacuum(2000)").fetchall()
        database.close()

    def _write(self, database: sqlite3.Connection) -> None:
        database.executemany(
            "INSERT OR REPLACE INTO deliveries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                (*key, one.owner, one.delivered_at, one.lease_until, one.outcome, one.outcome_at, one.reason)
                for key, one in self._begun.items()
            ),
        )
        where = 'WHERE topic = ? AND "partition" = ? AND "offset" = ? AND "group" = ? AND attempt = ?'
        database.executemany(f"UPDATE deliveries SET lease_until = ? {where}", self._extended)
        database.executemany(
            f"UPDATE deliveries SET outcome = ?, outcome_at = ?, reason = ? {where}", self._ended
        )
        database.executemany("INSERT OR REPLACE INTO steps VALUES (?, ?, ?, ?, ?, ?, ?)", self._steps)


def open_history(path: str) -> sqlite3.Connection:
    """The database, made where it is missing; others may read while one writes."""
    database = sqlite3.connect(path)
    database.execute("PRAGMA auto_vacuum = INCREMENTAL")
    database.execute("PRAGMA journal_mode = WAL")
    database.executescript(SCHEMA)
    return database


def _forget_dropped(database: sqlite3.Connection, state: State) -> None:
    names = {topic.id: name for name, topic in state.topics.items()}
    known = [topic for (topic,) in database.execute("SELECT topic FROM topics")]
    for table in ("deliveries", "steps"):
        database.executemany(
            f"DELETE FROM {table} WHERE topic = ?", [(topic,) for topic in known if topic not in names]
        )
        database.executemany(
            f'DELETE FROM {table} WHERE topic = ? AND "partition" = ? AND "offset" < ?',
            [
                (topic.id, number, part.index.first_offset)
                for topic in state.topics.values()
                for number, part in enumerate(topic.partitions)
                if part.index.first_offset
            ],
        )
    database.execute("DELETE FROM topics")
    database.executemany("INSERT INTO topics VALUES (?, ?)", names.items())
