"""Messages that a group skips or passes over: those for another group alone, those past their deadline, and
delayed ones."""

from collections.abc import Callable
from typing import NamedTuple

from driftq.core.dead_lettered import DEADLINE_EXCEEDED, DeadLettered
from driftq.core.group import Group, GroupPartition
from driftq.core.state import State, Topic

_LOOK_AHEAD = 1_000


class NextMessages(NamedTuple):
    """What becomes of the next messages of a group, from the first one that it has not passed over."""

    skipped: list[int]
    """Never meant for this group."""
    late: list[DeadLettered]
    """Past their deadline."""
    end: int
    """The ordinal up to which everything else may be delivered."""
    delayed: list[int]
    """Below `end`: the group passes over them, and gets them when their instant has come."""


def decide_skips(
    state: State, topic: Topic, group: Group, partition: int, *, now: int, wall: int
) -> NextMessages:
    """Find what this group skips among the next messages.

    Only a run at the head of the new messages is skipped or dead-lettered, so that deliveries stay in order.
    The run is of one kind: a dead letter may have to wait, and settling a later message would mark it as
    delivered. The caller settles the run and calls again. Retries are due by `now`, deadlines are compared
    with `wall`.
    """
    progress = group.partitions[partition]
    specials = progress.index.specials
    start = progress.upto
    if not specials.ordinals:
        return NextMessages([], [], progress.index.end, [])
    skipped: list[int] = []
    delayed: list[int] = []
    late: list[DeadLettered] = []
    if topic.has_dead_letters:
        late = _late_before(state, topic, group, partition, now=now, wall=wall)
    end = min(progress.index.end, start + _LOOK_AHEAD)
    head, run_is_late = start, False
    """The ordinal after the run, and whether the run is of messages past their deadline."""
    for ordinal, terms, deadline, is_delayed in specials.between(start, end):
        at_head = ordinal == head
        if is_delayed:
            delayed.append(ordinal)
            head += at_head
            continue
        only = state.terms[terms].group
        is_late = topic.has_dead_letters and 0 < deadline <= wall
        if not is_late and only in (0, group.id):
            continue
        for_another = only not in (0, group.id)
        if not at_head or (run_is_late if for_another else bool(skipped)):
            end = ordinal
            break
        if for_another:
            skipped.append(ordinal)
        else:
            run_is_late = True
            late.append(_late(topic, group, partition, ordinal, attempts=0))
        head += 1
    return NextMessages(skipped, late, end, delayed)


def _late_before(
    state: State, topic: Topic, group: Group, partition: int, *, now: int, wall: int
) -> list[DeadLettered]:
    """Retries and first deliveries that are due, of messages before the new ones, past their deadline."""
    progress = group.partitions[partition]
    limit = state.limits.in_flight_max
    late = [
        _late(topic, group, partition, ordinal, attempts=progress.attempt_of(ordinal))
        for ordinal in _late_among(
            progress, lambda most: progress.due(now, limit=most), limit=limit, wall=wall
        )
    ]
    if progress.due_first is not None:
        late += [
            _late(topic, group, partition, ordinal, attempts=0)
            for ordinal in _late_among(
                progress, lambda most: progress.first_due(limit=most), limit=limit, wall=wall
            )
        ]
    return late


def _late_among(
    progress: GroupPartition, find: Callable[[int], list[int]], *, limit: int, wall: int
) -> list[int]:
    """Those past their deadline. It searches until it has found as many in time as may be in flight, so
    that no unchecked message takes the place of one that is dead-lettered."""
    specials = progress.index.specials
    looked = limit
    while True:
        due = find(looked)
        late = [ordinal for ordinal in due if 0 < specials.deadline_at(ordinal) <= wall]
        if len(due) < looked or len(due) - len(late) >= limit:
            return late
        looked = limit + len(late)


def _late(topic: Topic, group: Group, partition: int, ordinal: int, *, attempts: int) -> DeadLettered:
    return DeadLettered(
        topic=topic.name,
        group=group.name,
        partition=partition,
        ordinal=ordinal,
        attempts=attempts,
        last_error=DEADLINE_EXCEEDED,
        reason=DEADLINE_EXCEEDED,
    )
