"""The history of deliveries (owner, times and outcome of each), of runs, and of jobs; and the search index.

A projection of the log in SQLite, complete up to the last sealed segment. Writing the same records again
changes nothing, so a dead round can be repeated. Rows are dropped with their messages.
"""

from __future__ import annotations

import sqlite3

from driftq.core.records import (
    SETTLED_DEAD,
    SETTLED_SKIPPED,
    DeadLettersRedriven,
    DeliveriesEnded,
    LeaseExtended,
    MessagesDelivered,
    MessagesSettled,
    MessagesStored,
    Record,
    unpack_array,
)
from driftq.core.state import State
from driftq.history.file import forget_dropped, history_end, open_history
from driftq.history.job_writer import JobHistory
from driftq.history.message import ENDINGS, SETTLEMENTS, DeadLetterEntry, DeliveryAttempt, envelopes_with
from driftq.history.search import SearchWriter
from driftq.model.topic import DEAD_LETTER_PREFIX

_Place = tuple[int, int, int, str]
_Key = tuple[int, int, int, str, int]


class History:
    """Collects the records of a round and writes them in one transaction."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._begun: dict[_Key, DeliveryAttempt] = {}
        self._ended: list[tuple[str, int, str | None, int, int, int, str, int]] = []
        self._extended: list[tuple[int, int, int, int, str, int]] = []
        self._steps: list[tuple[str, int, int, int, str | None, str | None, int]] = []
        self._letters: list[tuple[_Place, DeadLetterEntry]] = []
        self._newest: dict[_Place, DeadLetterEntry] = {}
        self._redriven: list[tuple[int, str, int, int, int]] = []
        self._jobs = JobHistory()
        self._search = SearchWriter()

    def see(self, state: State, record: Record, payload: memoryview, blob_at: int) -> None:
        self._jobs.see(state, record, payload, blob_at)
        self._search.see(state, record, payload, blob_at)
        match record:
            case MessagesStored():
                self._stored(state, record, payload, blob_at)
            case MessagesDelivered():
                self._delivered(state, record)
            case MessagesSettled():
                for delta in unpack_array("I", record.deltas):
                    self._settle(state, record, record.base + delta)
            case DeliveriesEnded():
                for ended in record.ended:
                    key = self._key(state, record.group, record.partition, ended.ordinal)
                    self._end(key, ENDINGS[record.cause], record.at, ended.error or None)
            case DeadLettersRedriven():
                self._redrive(state, record)
            case LeaseExtended():
                key = self._key(state, record.group, record.partition, record.ordinal)
                until = record.at + record.lease_ms
                known = self._begun.get(key)
                if known is not None:
                    known.lease_until = until
                else:
                    self._extended.append((until, *key))

    def _stored(self, state: State, record: MessagesStored, payload: memoryview, blob_at: int) -> None:
        for partition, offset, envelope in envelopes_with(b'"run_id"', record, payload, blob_at):
            if envelope.run_id:
                step = (envelope.step_id, envelope.parent_step_id, record.at)
                self._steps.append((envelope.run_id, record.topic, partition, offset, *step))
        if not state.topics_by_id[record.topic].name.startswith(DEAD_LETTER_PREFIX):
            return
        for _, offset, envelope in envelopes_with(b'"dlq"', record, payload, blob_at):
            facts = envelope.dlq
            origin = state.topics.get(facts.original_topic) if facts is not None else None
            if facts is not None and origin is not None:
                letter = DeadLetterEntry(
                    facts.given_up_by,
                    facts.attempts,
                    facts.reason,
                    facts.last_error,
                    record.at,
                    record.topic,
                    offset,
                )
                place = (origin.id, facts.original_partition, facts.original_offset, facts.given_up_by)
                self._letters.append((place, letter))
                self._newest[place] = letter

    def _redrive(self, state: State, record: DeadLettersRedriven) -> None:
        name = state.topics_by_id[record.topic].name.removeprefix(DEAD_LETTER_PREFIX)
        first = state.topics[name].next_offset - len(record.offsets)  # Stored just now, in this order.
        for number, offset in enumerate(record.offsets):
            self._redriven.append((record.at, record.by, first + number, record.topic, offset))

    def _delivered(self, state: State, record: MessagesDelivered) -> None:
        group = state.groups_by_id[record.group]
        progress = group.partitions[record.partition]
        topic = state.topics[group.topic].id
        offset_at = progress.index.offset_at
        for fresh in record.fresh:
            until = record.at + fresh.lease_ms
            for ordinal in range(fresh.start, fresh.stop, fresh.step):
                key = (topic, record.partition, offset_at(ordinal), group.name, fresh.attempt)
                self._begun[key] = DeliveryAttempt(fresh.owner, record.at, until)
        for again in record.redelivered:
            for ordinal in again.ordinals:
                attempt = progress.attempt_of(ordinal) + 1
                key = (topic, record.partition, offset_at(ordinal), group.name, attempt)
                self._begun[key] = DeliveryAttempt(again.owner, record.at, record.at + again.lease_ms)

    def _key(self, state: State, group_id: int, partition: int, ordinal: int) -> _Key:
        group = state.groups_by_id[group_id]
        progress = group.partitions[partition]
        topic = state.topics[group.topic].id
        return (topic, partition, progress.index.offset_at(ordinal), group.name, progress.attempt_of(ordinal))

    def _settle(self, state: State, record: MessagesSettled, ordinal: int) -> None:
        key = self._key(state, record.group, record.partition, ordinal)
        reason: str | None = None
        if record.cause == SETTLED_SKIPPED:
            key = (*key[:4], 0)
        elif record.cause == SETTLED_DEAD:
            letter = self._newest.get(key[:4])
            reason = letter.last_error if letter is not None else None
        self._end(key, SETTLEMENTS[record.cause], record.at, reason)

    def _end(self, key: _Key, outcome: str, at: int, reason: str | None) -> None:
        known = self._begun.get(key)
        if known is None and key[4]:
            self._ended.append((outcome, at, reason, *key))
            return
        if known is None:
            known = self._begun[key] = DeliveryAttempt("", at, at)
        known.outcome, known.outcome_at, known.reason = outcome, at, reason

    def finish(self, state: State, *, upto: int) -> None:
        with open_history(self._path) as database:
            self._write(database)
            self._jobs.write(database, state)
            self._search.write(database, state, after=history_end(database), upto=upto)
            forget_dropped(database, state)
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
        letter = "INSERT OR REPLACE INTO letters VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL, NULL, NULL)"
        database.executemany(
            letter,
            (
                (*key, one.attempts, one.reason, one.last_error, one.at, one.dlq_topic, one.dlq_offset)
                for key, one in self._letters
            ),
        )
        database.executemany(
            "UPDATE letters SET redriven_at = ?, redriven_by = ?, redriven_offset = ?"
            " WHERE dlq_topic = ? AND dlq_offset = ?",
            self._redriven,
        )
