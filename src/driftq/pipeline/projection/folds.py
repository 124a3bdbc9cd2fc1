"""Folds of events into rows of a read model, without Spark: messages in, changes and dead letters out.

`latest_state`: the newest event's payload is the state, gaps do not matter, and `delete` removes it. Every
event carries the whole state, so superseded events are skipped.

`ordered(function)`: events carry changes. They are applied one after the other without a gap; an early one
waits in the read model. An event on which the function fails is a dead letter, and the next one is applied
without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NamedTuple

import msgspec

from driftq.errors import InvalidArgument
from driftq.eventstore.published import PublishedEvent, decode_published, decode_state_event
from driftq.model import Aggregate
from driftq.sinks import Change, OutOfOrderEvent, ProjectionDeadLetter
from driftq.sql import KEY_BYTES_MAX, key_text

DECODE, FOLD, WRITE = "decode", "fold", "write"
"""The stages at which an event can fail."""

State = Any
"""What JSON can hold."""
Step = Callable[[State | None, PublishedEvent], State | None]
"""The state after an event; None means "absent" before it, and deletes after it."""
Pause = Callable[[int], None]
"""Waits before the n-th retry."""

_decode_json = msgspec.json.Decoder().decode


class BatchMessage(NamedTuple):
    """A message as a fold gets it. One that is not an event has no event columns."""

    topic: str
    partition: int
    offset: int
    event_id: str | None
    aggregate_type: str | None
    aggregate_id: str | None
    sequence_number: int | None
    value: str | None

    def fails(self, stage: str, error: object) -> ProjectionDeadLetter:
        return ProjectionDeadLetter(
            self.topic,
            self.partition,
            self.offset,
            self.event_id,
            stage,
            str(error),
            self.value,
            key=self.aggregate_id or "",
        )


@dataclass(slots=True)
class Folded:
    """The result of folding a batch of messages."""

    changes: list[Change] = field(default_factory=list)
    dead_letters: list[ProjectionDeadLetter] = field(default_factory=list)
    waiting: list[OutOfOrderEvent] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class LatestState:
    """Every event carries the whole state; the newest one counts."""


@dataclass(frozen=True, slots=True)
class Ordered:
    """Events carry changes, applied in order by `step`."""

    step: Step


latest_state = LatestState()


def ordered(step: Step) -> Ordered:
    """A fold of changes: `step(state, event)` returns the next state, with None for no state.

    It may be called again with the same arguments, after a restart or a retry: it must have no other effect.
    """
    return Ordered(step)


def fold_latest(arrived: Iterable[BatchMessage], *, keyed: bool = False) -> Folded:
    """The newest readable row of each aggregate, and the unreadable messages.

    `keyed`: the messages are no events but values by key, each the whole state of its key; null deletes.
    """
    read = _read_value if keyed else _read_event
    folded = Folded()
    for message in arrived:
        try:
            folded.changes.append(read(message))
        except (ValueError, RecursionError, InvalidArgument) as error:
            folded.dead_letters.append(message.fails(DECODE, error))
    folded.changes = newest_changes(folded.changes)
    return folded


def newest_changes(changes: Iterable[Change]) -> list[Change]:
    """One for each aggregate: that with the highest sequence, and of equal ones the first."""
    newest: dict[tuple[str, str], Change] = {}
    for change in changes:
        key = (change.aggregate_type, change.aggregate_id)
        known = newest.get(key)
        if known is None or known.sequence_number < change.sequence_number:
            newest[key] = change
    return list(newest.values())


def fold_ordered(
    arrived: Iterable[BatchMessage],
    *,
    current: Mapping[Aggregate, Change],
    waiting: Iterable[OutOfOrderEvent],
    step: Step,
    retries: int,
    pause: Pause,
) -> Folded:
    """The rows after every event that could be applied, the events that wait, and those that failed."""
    folded = Folded()
    events: dict[tuple[str, str, int], OutOfOrderEvent] = {}
    for early in waiting:
        events[early[:3]] = early
    for message in arrived:
        try:
            event = _sequenced(message)
        except InvalidArgument as error:
            folded.dead_letters.append(message.fails(DECODE, error))
            continue
        events.setdefault(event[:3], event)
    in_order = sorted(events.values(), key=lambda event: event[:3])
    for key, group in groupby(in_order, key=lambda event: Aggregate(event[0], event[1])):
        _advance(folded, current.get(key), list(group), step=step, retries=retries, pause=pause)
    return folded


def _advance(
    folded: Folded,
    row: Change | None,
    events: Sequence[OutOfOrderEvent],
    *,
    step: Step,
    retries: int,
    pause: Pause,
) -> None:
    """Apply the events of one aggregate up to the first gap."""
    before = row
    state = None if row is None or row.state is None else _decode_json(row.state)
    for event in events:
        reached = 0 if row is None else row.sequence_number
        if event.sequence_number <= reached:
            continue
        if event.sequence_number > reached + 1:
            folded.waiting.append(event)
            continue
        try:
            state = _stepped(step, state, event, retries=retries, pause=pause)
            text = None if state is None else msgspec.json.encode(state).decode()
        except Exception as error:  # noqa: BLE001 - The function is the user's; its error is stored with the event.
            dead = _as_batch_message(event).fails(FOLD, f"{type(error).__name__}: {error}")
            folded.dead_letters.append(dead)
            text = None if row is None else row.state
            state = None if text is None else _decode_json(text)
        row = Change(*event[:4], text)
    if row is not None and row is not before:
        folded.changes.append(row)


def _stepped(step: Step, state: State, event: OutOfOrderEvent, *, retries: int, pause: Pause) -> State:
    published = decode_published(event.value)  # The same every time: nothing to retry.
    for retry in range(1, retries + 1):
        try:
            return step(state, published)
        except Exception:  # noqa: BLE001 - The function is the user's; the last try reports the error.
            pause(retry)
    return step(state, published)


def _read_event(message: BatchMessage) -> Change:
    kind, aggregate_id, sequence, _ = _identity(message)
    stated = decode_state_event(message.value or "")
    return Change(kind, aggregate_id, sequence, _key("event_id", stated.event_id), stated.state)


def _read_value(message: BatchMessage) -> Change:
    value = message.value
    if value is not None:
        _decode_json(value)
    deleted = value is None or value.strip() == "null"
    name = f"{message.topic}/{message.partition}/{message.offset}"
    if not message.aggregate_id:
        raise InvalidArgument("key", "is missing: a message without a key has no row")
    key = key_text("key", message.aggregate_id)
    return Change(message.topic, key, message.offset + 1, name, None if deleted else value)


def _sequenced(message: BatchMessage) -> OutOfOrderEvent:
    kind, aggregate_id, sequence, event_id = _identity(message)
    value = message.value or ""
    if "\x00" in value:  # It may have to wait in the read model, and PostgreSQL cannot store it.
        raise InvalidArgument("value", "must not contain the NUL character")
    return OutOfOrderEvent(
        kind,
        aggregate_id,
        sequence,
        _key("event_id", event_id),
        value,
        message.topic,
        message.partition,
        message.offset,
    )


def _identity(message: BatchMessage) -> tuple[str, str, int, str]:
    """Type, id, sequence and event id; raises InvalidArgument where the value is no event."""
    _, _, _, event_id, kind, aggregate_id, sequence, _ = message
    if event_id is None or kind is None or aggregate_id is None or sequence is None:
        raise InvalidArgument(
            "value",
            "is not an event: event_id, aggregate_type, aggregate_id and sequence_number must be there",
        )
    if sequence < 1:
        raise InvalidArgument("sequence_number", f"starts at 1, and is {sequence}")
    return _key("aggregate_type", kind), _key("aggregate_id", aggregate_id), sequence, event_id


def _key(field: str, text: str) -> str:
    """As `key_text`, with a fast path for nearly every key."""
    if text.isascii() and len(text) <= KEY_BYTES_MAX and "\x00" not in text:
        return text
    return key_text(field, text)


def _as_batch_message(event: OutOfOrderEvent) -> BatchMessage:
    kind, aggregate_id, sequence, event_id, value, topic, partition, offset = event
    return BatchMessage(topic, partition, offset, event_id, kind, aggregate_id, sequence, value)
