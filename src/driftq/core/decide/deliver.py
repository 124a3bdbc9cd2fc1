"""Which consumer gets which message next."""

from collections.abc import Sequence

import msgspec

from driftq.core.commands import Capacity
from driftq.core.group import Group, GroupPartition
from driftq.core.records import FreshBlock, MessagesDelivered, RedeliveredBlock
from driftq.model.options.limits import Limits


class Assignment(msgspec.Struct, gc=False):
    """The deliveries, and which member gets each block: fresh ones first, in the record's order."""

    record: MessagesDelivered
    members: list[int]
    count: int
    last: int
    """The member that got the last message: the one after it is next."""


def decide_deliveries(
    group: Group,
    partition: int,
    capacities: Sequence[Capacity],
    *,
    limits: Limits,
    now: int,
    end: int | None = None,
    delayed: Sequence[int] = (),
    run: int = 1,
) -> Assignment | None:
    """Assign due and new messages round-robin, new ones in runs; None when there is nothing to assign.

    Capacities come in the order of their turn and shrink with each message. Redeliveries go first, because
    they are older, and to a stalled member only where no other has credit. New messages are assigned up to
    the ordinal `end`, but for those that are `delayed`; those whose instant has come go before them.
    """
    progress = group.partitions[partition]
    room = min(limits.in_flight_max - len(progress.leases), sum(capacity.room for capacity in capacities))
    if room <= 0:
        return None
    free = [capacity for capacity in capacities if capacity.room > 0]
    last = free[0].member
    ready: list[int] = []
    redelivered: list[tuple[int, RedeliveredBlock]] = []
    if progress.waiting:
        ready = progress.due(now, limit=room)
        redelivered, turn = _assign_redeliveries(ready, free)
        last = free[turn - 1].member
        free = [capacity for capacity in free[turn:] + free[:turn] if capacity.room > 0]
    upto = progress.upto
    if end is None:
        end = progress.index.end
    count = room - len(ready)
    if delayed or progress.due_first is not None:
        runs, stop = _runs(progress, end, delayed, room=count)
        count = sum(to - start for start, to in runs)
        fresh: list[tuple[int, FreshBlock]] = []
        for start, to in runs:
            blocks, free = _assign_fresh(start, to, free, run=run, attempt=progress.attempt_base + 1)
            fresh += blocks
    else:
        stop = min(upto + count, end)
        count = stop - upto
        attempt = progress.attempt_base + 1
        fresh = _assign_fresh(upto, stop, free, run=run, attempt=attempt)[0] if count else []
    if not fresh and not redelivered and stop == upto:
        return None
    record = MessagesDelivered(
        at=now,
        group=group.id,
        partition=partition,
        upto=stop,
        fresh=[block for _, block in fresh],
        redelivered=[block for _, block in redelivered],
    )
    members = [member for member, _ in fresh] + [member for member, _ in redelivered]
    if fresh:
        last = fresh[-1][0]
    return Assignment(record=record, members=members, count=count + len(ready), last=last)


def _assign_redeliveries(
    ordinals: list[int], free: list[Capacity]
) -> tuple[list[tuple[int, RedeliveredBlock]], int]:
    """One block for each member, and whose turn is next."""
    assigned: dict[int, list[int]] = {}
    turn = 0
    lively = sum([capacity.room for capacity in free if not capacity.stalled])
    for count, ordinal in enumerate(ordinals):
        while free[turn].room <= 0 or (free[turn].stalled and count < lively):
            turn = (turn + 1) % len(free)
        assigned.setdefault(turn, []).append(ordinal)
        free[turn].room -= 1
        turn = (turn + 1) % len(free)
    blocks = [
        (
            free[slot].member,
            RedeliveredBlock(owner=free[slot].owner, lease_ms=free[slot].lease_ms, ordinals=its_ordinals),
        )
        for slot, its_ordinals in assigned.items()
    ]
    return blocks, turn


def _runs(
    progress: GroupPartition, end: int, delayed: Sequence[int], *, room: int
) -> tuple[list[tuple[int, int]], int]:
    """Runs of messages for their first delivery, `room` at most, and the ordinal that the group gets to.

    Messages that came due after the group had passed over them, then the new ones between delayed ones.
    """
    runs: list[tuple[int, int]] = []
    for ordinal in progress.first_due(limit=room):
        room -= 1
        if runs and runs[-1][1] == ordinal:
            runs[-1] = (runs[-1][0], ordinal + 1)
        else:
            runs.append((ordinal, ordinal + 1))
    start = progress.upto
    for hole in (*delayed, end):
        stop = min(hole, start + room)
        if stop > start:
            runs.append((start, stop))
            room -= stop - start
        if stop < hole:
            return runs, stop
        start = min(hole + 1, end)
    return runs, end


def _assign_fresh(
    start: int, stop: int, free: list[Capacity], *, run: int, attempt: int
) -> tuple[list[tuple[int, FreshBlock]], list[Capacity]]:
    """One block for each member where that is possible, and who has credit left, in the order of their turn.

    Stripes without runs: with three members each gets every third message, until one of them has no credit.
    """
    if run > 1:
        return _assign_runs(start, stop, free, run=run, attempt=attempt)
    blocks: list[tuple[int, FreshBlock]] = []
    while start < stop:
        width = min(len(free), stop - start)
        rows = max(1, min((stop - start) // width, min(capacity.room for capacity in free[:width])))
        end = start + rows * width
        for slot, capacity in enumerate(free[:width]):
            block = FreshBlock(
                owner=capacity.owner,
                lease_ms=capacity.lease_ms,
                start=start + slot,
                stop=end,
                step=width,
                attempt=attempt,
            )
            blocks.append((capacity.member, block))
            capacity.room -= rows
        start = end
        free = [capacity for capacity in free[width:] + free[:width] if capacity.room > 0]
    return blocks, free


def _assign_runs(
    start: int, stop: int, free: list[Capacity], *, run: int, attempt: int
) -> tuple[list[tuple[int, FreshBlock]], list[Capacity]]:
    """Consecutive messages for each member: a run, or its share where that is more."""
    blocks: list[tuple[int, FreshBlock]] = []
    while start < stop:
        length = max(run, (stop - start) // len(free))
        served = 0
        for capacity in free:
            end = min(start + min(length, capacity.room), stop)
            block = FreshBlock(
                owner=capacity.owner,
                lease_ms=capacity.lease_ms,
                start=start,
                stop=end,
                step=1,
                attempt=attempt,
            )
            blocks.append((capacity.member, block))
            capacity.room -= end - start
            served += 1
            start = end
            if start == stop:
                break
        free = [capacity for capacity in free[served:] + free[:served] if capacity.room > 0]
    return blocks, free
