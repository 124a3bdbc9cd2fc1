"""Who gets which message next."""

from collections.abc import Sequence

import msgspec

from driftq.core.commands import Capacity
from driftq.core.group import Group
from driftq.core.records import AgainBlock, FreshBlock, MessagesDelivered
from driftq.model.options.limits import Limits


class Assignment(msgspec.Struct, gc=False):
    """The deliveries, and which seat gets each block: fresh ones first, in the record's order."""

    record: MessagesDelivered
    seats: list[int]
    count: int
    last: int
    """The seat that got the last message: the turn goes on behind it."""


def decide_deliveries(
    group: Group,
    partition: int,
    takers: Sequence[Capacity],
    *,
    limits: Limits,
    now: int,
    end: int | None = None,
) -> Assignment | None:
    """Deal out what is due and what is new, a message each in turn; None when there is nothing to deal.

    Takers come in the order of their turn and leave with less room. Messages that were delivered before go
    first, because they are older, and to a stalled taker only where no other has room. New ones are dealt up
    to the ordinal `end`.
    """
    progress = group.partitions[partition]
    room = min(limits.in_flight_max - len(progress.leases), sum(taker.room for taker in takers))
    if room <= 0:
        return None
    hand = [taker for taker in takers if taker.room > 0]
    last = hand[0].seat
    ready: list[int] = []
    again: list[tuple[int, AgainBlock]] = []
    if progress.waiting:
        ready = progress.due(now, limit=room)
        again, turn = _deal_again(ready, hand)
        last = hand[turn - 1].seat
        hand = [taker for taker in hand[turn:] + hand[:turn] if taker.room > 0]
    upto = progress.upto
    stop = min(upto + room - len(ready), progress.index.end if end is None else end)
    fresh = _deal_fresh(upto, stop, hand, attempt=progress.attempt_base + 1) if stop > upto else []
    if not fresh and not again:
        return None
    record = MessagesDelivered(
        at=now,
        group=group.id,
        partition=partition,
        upto=stop,
        fresh=[block for _, block in fresh],
        again=[block for _, block in again],
    )
    seats = [seat for seat, _ in fresh] + [seat for seat, _ in again]
    if fresh:
        last = fresh[-1][0]
    return Assignment(record=record, seats=seats, count=stop - upto + len(ready), last=last)


def _deal_again(ordinals: list[int], hand: list[Capacity]) -> tuple[list[tuple[int, AgainBlock]], int]:
    """One block a taker, and whose turn comes next."""
    dealt: dict[int, list[int]] = {}
    turn = 0
    lively = sum([taker.room for taker in hand if not taker.stalled])
    for count, ordinal in enumerate(ordinals):
        while hand[turn].room <= 0 or (hand[turn].stalled and count < lively):
            turn = (turn + 1) % len(hand)
        dealt.setdefault(turn, []).append(ordinal)
        hand[turn].room -= 1
        turn = (turn + 1) % len(hand)
    blocks = [
        (hand[slot].seat, AgainBlock(owner=hand[slot].owner, lease_ms=hand[slot].lease_ms, ordinals=mine))
        for slot, mine in dealt.items()
    ]
    return blocks, turn


def _deal_fresh(start: int, stop: int, hand: list[Capacity], *, attempt: int) -> list[tuple[int, FreshBlock]]:
    """Stripes: with three takers each gets every third message, until one of them is full."""
    blocks: list[tuple[int, FreshBlock]] = []
    while start < stop:
        width = min(len(hand), stop - start)
        rows = max(1, min((stop - start) // width, min(taker.room for taker in hand[:width])))
        end = start + rows * width
        for slot, taker in enumerate(hand[:width]):
            block = FreshBlock(
                owner=taker.owner,
                lease_ms=taker.lease_ms,
                start=start + slot,
                stop=end,
                step=width,
                attempt=attempt,
            )
            blocks.append((taker.seat, block))
            taker.room -= rows
        start = end
        hand = [taker for taker in hand[width:] + hand[:width] if taker.room > 0]
    return blocks
