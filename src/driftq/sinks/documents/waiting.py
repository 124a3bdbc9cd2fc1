"""Events that wait for an earlier one of their aggregate, as notes: one group for each aggregate.

A waiting event may be stored before the position moves past it, by a run that is replaced as well: it is an
event of the topic all the same. Once the document has reached its sequence it counts no longer and may be
removed at any time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import NamedTuple

import msgspec

from driftq.model import Aggregate
from driftq.sinks.documents.place import DocumentPlace
from driftq.sinks.documents.port import Note
from driftq.sinks.port import Change, OutOfOrderEvent

_WAITING = "waiting"
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(OutOfOrderEvent).decode


class WaitingEvents(NamedTuple):
    """The events that wait, in order, and the ids of notes that their document has reached."""

    events: list[OutOfOrderEvent]
    reached: list[str]


def put_waiting(documents: DocumentPlace, events: Iterable[OutOfOrderEvent]) -> None:
    documents.put_notes(
        Note(_WAITING, _group(event[0], event[1]), note_id(event), _encode(event).decode())
        for event in events
    )


def find_waiting(documents: DocumentPlace, aggregates: Sequence[Aggregate]) -> WaitingEvents:
    notes = documents.notes_of(_WAITING, (_group(*aggregate) for aggregate in aggregates))
    found = [_decode(note.text) for note in notes]
    rows = documents.get(Aggregate(event[0], event[1]) for event in found)
    reached: list[str] = []
    events: list[OutOfOrderEvent] = []
    for event in found:
        row = rows.get(Aggregate(event[0], event[1]))
        if row is not None and event.sequence_number <= row.sequence_number:
            reached.append(note_id(event))
        else:
            events.append(event)
    return WaitingEvents(sorted(events), reached)


def remove_waiting(documents: DocumentPlace, ids: Iterable[str]) -> None:
    documents.remove_notes(_WAITING, ids)


def remove_reached(documents: DocumentPlace, changes: Sequence[Change]) -> None:
    """Remove the notes that the documents of these aggregates have reached."""
    if changes:
        aggregates = [Aggregate(change.aggregate_type, change.aggregate_id) for change in changes]
        remove_waiting(documents, find_waiting(documents, aggregates).reached)


def note_id(event: OutOfOrderEvent) -> str:
    return f"{_group(event[0], event[1])}-{event.sequence_number:020}"


def _group(aggregate_type: str, aggregate_id: str) -> str:
    """Short, whatever the id holds; two aggregates never share one."""
    return sha256(_encode((aggregate_type, aggregate_id))).hexdigest()
