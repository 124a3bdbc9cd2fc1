"""Following some messages, or one run, from the history to the end of the log.

No state is folded: the replay matches each record by the ordinals of the requested messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from driftq.core.records import (
    DeadLettersRedriven,
    DeliveriesEnded,
    GroupCreated,
    LeaseExtended,
    MessagesDelivered,
    MessagesSettled,
    MessagesStored,
    Record,
    unpack_array,
)
from driftq.history.message import (
    ENDINGS,
    SETTLEMENTS,
    DeadLetterEntry,
    DeliveryAttempt,
    MessageHistory,
    MessageQuery,
    RunStep,
    envelopes_with,
    read_histories,
    read_steps,
)
from driftq.history.tail import read_with_tail, scan
from driftq.log.files import Folder
from driftq.log.frame import LogEnd


@dataclass(frozen=True, slots=True)
class Names:
    """The names of the numbers in records, as of the end of the log."""

    groups: Mapping[int, tuple[int, str]]
    """Topic and name of each group."""
    dlq_topics: Mapping[int, int]
    """The topic that each dead-letter topic belongs to."""


def read_message_histories(
    folder: Folder, history: str | None, wanted: Sequence[MessageQuery], names: Names, *, end: LogEnd
) -> dict[MessageQuery, MessageHistory]:
    """Everything that happened to these messages up to a confirmed end. Blocks."""
    histories, files = read_with_tail(folder, history, lambda found: read_histories(found, wanted), end=end)
    follower = Follower(histories, names)
    scan(folder, files, follower.see, end=end)
    return histories


def find_steps(folder: Folder, history: str | None, run_id: str, *, end: LogEnd) -> list[RunStep]:
    """The messages of a run up to a confirmed end, including those no longer stored. Blocks."""
    steps, files = read_with_tail(folder, history, lambda found: read_steps(found, run_id), end=end)
    mark = b'"run_id":' + msgspec.json.encode(run_id)

    def see(record: Record, payload: memoryview, blob_at: int) -> None:
        if isinstance(record, MessagesStored):
            for partition, offset, envelope in envelopes_with(mark, record, payload, blob_at):
                if envelope.run_id == run_id:
                    place = (record.topic, partition, offset)
                    steps.append(RunStep(*place, envelope.step_id, envelope.parent_step_id, record.at))

    scan(folder, files, see, end=end)
    return sorted(steps, key=lambda step: step.produced_at)


class Follower:
    """Adds the facts in records to the histories of messages."""

    def __init__(self, histories: Mapping[MessageQuery, MessageHistory], names: Names) -> None:
        self._groups = dict(names.groups)
        self._dlq_topics = names.dlq_topics
        self._by_ordinal: dict[tuple[int, int], dict[int, MessageHistory]] = {}
        self._by_offset: dict[tuple[int, int], MessageHistory] = {}
        self._dead_letters: dict[tuple[int, int], DeadLetterEntry] = {}
        self._next_offset: dict[int, int] = {}
        for wanted, past in histories.items():
            self._by_ordinal.setdefault((wanted.topic, wanted.partition), {})[wanted.ordinal] = past
            self._by_offset[wanted.topic, wanted.offset] = past
            for dead_letter in past.letters:
                self._dead_letters[dead_letter.dlq_topic, dead_letter.dlq_offset] = dead_letter

    def see(self, record: Record, payload: memoryview, blob_at: int) -> None:
        match record:
            case GroupCreated():
                self._groups[record.group] = (record.topic, record.name)
            case MessagesStored():
                self._stored(record, payload, blob_at)
            case MessagesDelivered():
                self._delivered(record)
            case MessagesSettled():
                ordinals = [record.base + delta for delta in unpack_array("I", record.deltas)]
                for group, past in self._hits(record.group, record.partition, ordinals):
                    outcome = SETTLEMENTS[record.cause]
                    errors = [one.last_error for one in past.letters if one.group == group]
                    reason = errors[-1] if errors and outcome == "dead" else None
                    past.end(group, outcome, record.at, reason)
            case DeliveriesEnded():
                for ended in record.ended:
                    for group, past in self._hits(record.group, record.partition, (ended.ordinal,)):
                        past.end(group, ENDINGS[record.cause], record.at, ended.error or None)
            case LeaseExtended():
                for group, past in self._hits(record.group, record.partition, (record.ordinal,)):
                    attempt = past.attempts.get((group, past.newest(group)))
                    if attempt is not None:
                        attempt.lease_until = record.at + record.lease_ms
            case DeadLettersRedriven():
                self._redriven(record)

    def _hits(
        self, group: int, partition: int, ordinals: Sequence[int]
    ) -> Iterable[tuple[str, MessageHistory]]:
        """The group's name with each of the messages that are followed."""
        topic, name = self._groups.get(group, (0, ""))
        kept = self._by_ordinal.get((topic, partition))
        if kept is None:
            return []
        if isinstance(ordinals, range) and len(kept) < len(ordinals):
            return [(name, past) for ordinal, past in kept.items() if ordinal in ordinals]
        return [(name, kept[ordinal]) for ordinal in ordinals if ordinal in kept]

    def _delivered(self, record: MessagesDelivered) -> None:
        for fresh in record.fresh:
            ordinals = range(fresh.start, fresh.stop, fresh.step)
            for group, past in self._hits(record.group, record.partition, ordinals):
                until = record.at + fresh.lease_ms
                past.begin(group, fresh.attempt, DeliveryAttempt(fresh.owner, record.at, until))
        for again in record.redelivered:
            for group, past in self._hits(record.group, record.partition, again.ordinals):
                attempt = max(1, past.newest(group)) + 1
                past.begin(
                    group, attempt, DeliveryAttempt(again.owner, record.at, record.at + again.lease_ms)
                )

    def _stored(self, record: MessagesStored, payload: memoryview, blob_at: int) -> None:
        self._next_offset[record.topic] = record.first_offset + len(record.lengths) // 4
        origin = self._dlq_topics.get(record.topic)
        if origin is None:
            return
        for _, offset, envelope in envelopes_with(b'"dlq"', record, payload, blob_at):
            facts = envelope.dlq
            past = self._by_offset.get((origin, facts.original_offset)) if facts is not None else None
            if facts is not None and past is not None:
                told = (facts.given_up_by, facts.attempts, facts.reason, facts.last_error)
                dead_letter = DeadLetterEntry(*told, record.at, record.topic, offset)
                past.letters.append(dead_letter)
                self._dead_letters[record.topic, offset] = dead_letter

    def _redriven(self, record: DeadLettersRedriven) -> None:
        origin = self._dlq_topics.get(record.topic, 0)
        first = self._next_offset.get(origin, 0) - len(record.offsets)  # Stored just now, in this order.
        for number, offset in enumerate(record.offsets):
            dead_letter = self._dead_letters.get((record.topic, offset))
            if dead_letter is not None:
                dead_letter.redriven_at, dead_letter.redriven_by = record.at, record.by
                dead_letter.redriven_offset = first + number
            past = self._by_offset.get((origin, first + number))
            if past is not None:
                past.redriven_from = offset
