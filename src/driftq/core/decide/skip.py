"""Messages that a group skips: those for another group alone, and those whose deadline has passed."""

from driftq.core.dead_lettered import DEADLINE_EXCEEDED, DeadLettered
from driftq.core.group import Group, GroupPartition
from driftq.core.state import State, Topic

_LOOK_AHEAD = 1_000


def decide_skips(
    state: State, topic: Topic, group: Group, partition: int, *, now: int, wall: int
) -> tuple[list[int], list[DeadLettered], int]:
    """Among the next messages: ordinals that this group skips, those past their deadline, and the ordinal up
    to which everything else may be delivered.

    Only a run at the head of the new messages is skipped or dead-lettered, so that deliveries stay in order.
    The run is of one kind: a dead letter may have to wait, and settling a later message would mark it as
    delivered. The caller settles the run and calls again. Retries are due by `now`, deadlines are compared
    with `wall`.
    """
    progress = group.partitions[partition]
    index = progress.index
    if not index.specials.ordinals:
        return [], [], index.end
    skipped: list[int] = []
    late: list[DeadLettered] = []
    if topic.has_dead_letters:
        late = [
            _late(topic, group, partition, ordinal, attempts=progress.attempt_of(ordinal))
            for ordinal in _late_retries(progress, limit=state.limits.in_flight_max, now=now, wall=wall)
        ]
    ordinal = progress.upto
    stop = min(index.end, ordinal + _LOOK_AHEAD)
    ahead, run_is_late = True, False
    while ordinal < stop:
        only = state.terms[index.specials.terms_at(ordinal)].group
        is_late = topic.has_dead_letters and 0 < index.specials.deadline_at(ordinal) <= wall
        if not is_late and only in (0, group.id):
            ahead = False
        elif not ahead:
            break
        elif only not in (0, group.id):
            if run_is_late:
                break
            skipped.append(ordinal)
        elif skipped:
            break
        else:
            run_is_late = True
            late.append(_late(topic, group, partition, ordinal, attempts=0))
        ordinal += 1
    return skipped, late, ordinal


def _late_retries(progress: GroupPartition, *, limit: int, now: int, wall: int) -> list[int]:
    """Due retries past their deadline. It searches until it has found as many in time as may be in flight, so
    that no unchecked retry takes the place of one that is dead-lettered."""
    specials = progress.index.specials
    looked = limit
    while True:
        due = progress.due(now, limit=looked)
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
