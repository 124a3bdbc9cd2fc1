"""The append rule: which events are stored, under which numbers, and which are duplicates or conflicts.

Plain functions over what a transaction has read. Events come in groups: those of one aggregate in one
request. A known event_id is answered first: a repeated command succeeds although its own first run has moved
the aggregate past its expected_seq. The other events must fit the aggregate's head, one after the other. All
new events of a group are stored, or none.
"""

from collections.abc import Mapping, Sequence

import msgspec

from driftq.errors import Conflict, EventIdReused, SequenceConflict
from driftq.eventstore.append.draft import Draft
from driftq.eventstore.options import MismatchMode
from driftq.eventstore.outcome import Appended, Refused
from driftq.model import Aggregate

Group = Sequence[Draft]
Answer = Appended | Refused


class KnownEvent(msgspec.Struct, frozen=True, gc=False):
    """The permanent record of an event_id."""

    content_hash: str
    sequence_number: int


class Numbered(msgspec.Struct, frozen=True, gc=False):
    """A draft and its sequence number."""

    draft: Draft
    sequence_number: int


class EventDecision(msgspec.Struct, frozen=True):
    """The answers for each group, the events to store for them, and the new heads of the aggregates."""

    answers: list[list[Answer]]
    fresh: list[Numbered]
    heads: dict[Aggregate, int]


def decide(
    groups: Sequence[Group],
    *,
    known: Mapping[str, KnownEvent],
    heads: Mapping[Aggregate, int],
    mismatch: MismatchMode,
    assumed: Mapping[Aggregate, int] | None = None,
) -> EventDecision:
    """Apply the rule to groups, in order; `assumed` are the heads that an optimistic writer expected."""
    decision = EventDecision([], [], dict(heads))
    taken_ids = dict(known)
    for group in groups:
        aggregate = group[0].aggregate
        found = heads.get(aggregate, 0)
        counted_on = (assumed or {}).get(aggregate, found)
        try:
            if counted_on != found and any(each.event_id not in taken_ids for each in group):
                raise SequenceConflict(aggregate.id, expected_seq=counted_on, actual_seq=found)
            head = decision.heads.get(aggregate, 0)
            answers, fresh, own_ids = _decide_group(group, taken_ids, head, mismatch)
        except Conflict as conflict:
            decision.answers.append([_refusal(each, taken_ids, mismatch, conflict) for each in group])
            continue
        decision.answers.append(answers)
        if fresh:
            decision.fresh.extend(fresh)
            taken_ids |= own_ids
            decision.heads[aggregate] = fresh[-1].sequence_number
    return decision


def _decide_group(
    group: Group, taken_ids: Mapping[str, KnownEvent], head: int, mismatch: MismatchMode
) -> tuple[list[Answer], list[Numbered], dict[str, KnownEvent]]:
    """Answers, fresh events and their ids; raises the conflict of the first event that does not fit."""
    own_ids: dict[str, KnownEvent] = {}
    answers: list[Answer] = []
    fresh: list[Numbered] = []
    for each in group:
        first = taken_ids.get(each.event_id) or own_ids.get(each.event_id)
        if first is not None:
            answers.append(_duplicate(each, first, mismatch))
            continue
        head = _next_number(each, head)
        own_ids[each.event_id] = KnownEvent(each.content_hash, head)
        fresh.append(Numbered(each, head))
        answers.append(Appended(each.event_id, head))
    return answers, fresh, own_ids


def _duplicate(each: Draft, first: KnownEvent, mismatch: MismatchMode) -> Appended:
    same = first.content_hash == each.content_hash
    if not same and mismatch is MismatchMode.ERROR:
        raise EventIdReused(each.event_id, sequence_number=first.sequence_number)
    return Appended(each.event_id, first.sequence_number, duplicate=True, payload_mismatch=not same)


def _next_number(each: Draft, head: int) -> int:
    if each.expected_seq is not None and each.expected_seq != head:
        raise SequenceConflict(each.aggregate.id, expected_seq=each.expected_seq, actual_seq=head)
    if each.sequence_number is None:
        return head + 1
    # A caller that numbers its events may leave gaps, but not go back: the log keeps each aggregate in order.
    if each.sequence_number <= head:
        raise SequenceConflict(each.aggregate.id, expected_seq=each.sequence_number - 1, actual_seq=head)
    return each.sequence_number


def _refusal(
    each: Draft, known: Mapping[str, KnownEvent], mismatch: MismatchMode, conflict: Conflict
) -> Answer:
    """An event that was stored before stays a duplicate; the others share their group's fate."""
    first = known.get(each.event_id)
    if first is None:
        return Refused(each.event_id, conflict)
    try:
        return _duplicate(each, first, mismatch)
    except EventIdReused as reused:
        return Refused(each.event_id, reused)
