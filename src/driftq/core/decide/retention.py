"""Which messages have passed their retention.

A message is kept until every group has settled it and every reader has passed it, and for the topic's
retention after it was produced, or after its `deliver_at`. The exception is a topic with `retention_bytes`:
above it the oldest messages are dropped, settled or not. Only the start of a partition is ever dropped, so
one unsettled message keeps all later ones. Ages are counted by engine time or by the wall clock, whichever is
earlier: a clock that is ahead expires nothing.
"""

from __future__ import annotations

from driftq.core.jobs.table import JOBS_TOPIC
from driftq.core.records import PartitionsTrimmed, Trim
from driftq.core.state import State, Topic
from driftq.model.topic import DEAD_LETTER_PREFIX

PURGED_TOGETHER = 5_000
"""Purged dead letters that one decision drops."""


def decide_retention(state: State, topic: Topic, *, now: int, wall: int) -> PartitionsTrimmed | None:
    """The messages to drop now; None when there are none. Costs O(partitions), independent of what stays."""
    if topic.name.startswith(DEAD_LETTER_PREFIX):
        return _drop_purged(topic, now)
    limits = state.limits
    # A key that is remembered needs its message, or a repeated produce could not be told from a new one.
    remembered_ms = limits.idempotency_ttl_ms + limits.idempotency_ttl_ms // 64 + 2
    old = min(now, wall) - max(topic.retention_ms, remembered_ms)
    firsts = [_done_upto(topic, number, old) for number in range(len(topic.partitions))]
    if topic.name == JOBS_TOPIC:
        firsts = [min(firsts[0], max(topic.partitions[0].index.first, state.jobs.first_needed()))]
    over = _cut_for_bytes(topic, firsts)
    trims: list[Trim] = []
    for number, (part, done) in enumerate(zip(topic.partitions, firsts, strict=True)):
        first = max(done, part.index.first_ordinal_from(over)) if over else done
        if first > part.index.first:
            trims.append(Trim(partition=number, first=first, lost=_unsettled(topic, number, first)))
    return PartitionsTrimmed(at=now, topic=topic.id, trims=trims) if trims else None


def _drop_purged(topic: Topic, now: int) -> PartitionsTrimmed | None:
    """Only a purge removes dead letters. What is left of a large one goes with later decisions."""
    trims: list[Trim] = []
    left = PURGED_TOGETHER
    for number, part in enumerate(topic.partitions):
        first = part.index.first
        end = min(part.index.end, first + left)
        while first < end and part.index.offset_at(first) in topic.purged:
            first += 1
        left -= first - part.index.first
        if first > part.index.first:
            trims.append(Trim(partition=number, first=first, lost=0))
    return PartitionsTrimmed(at=now, topic=topic.id, trims=trims) if trims else None


def _done_upto(topic: Topic, partition: int, old: int) -> int:
    """The ordinal below which all is old enough, settled and read."""
    part = topic.partitions[partition]
    first = part.index.first
    upto = max(first, part.ages.end_by(old)) if old > 0 else first
    if upto == first:
        return first
    for group in topic.groups.values():
        upto = min(upto, group.partitions[partition].floor)
    for positions in topic.readers.values():
        upto = min(upto, positions[partition])
    specials = part.index.specials
    if specials.ordinals and upto > first:  # A delayed message is kept from its instant on.
        upto = specials.first_delivered_after(old, stop=upto)
    return max(first, upto)


def _cut_for_bytes(topic: Topic, firsts: list[int]) -> int:
    """The lowest offset from which on the topic fits its `retention_bytes`; 0 when it fits as it is."""
    limit = topic.options.retention_bytes
    if limit is None:
        return 0

    def bytes_from(offset: int) -> int:
        size = 0
        for part, first in zip(topic.partitions, firsts, strict=True):
            index = part.index
            start = max(first, index.first_ordinal_from(offset)) if offset else first
            size += index.total_bytes - index.bytes_upto(start)
        return size

    if bytes_from(0) <= limit:
        return 0
    low, high = 0, topic.next_offset
    while low < high:
        middle = (low + high) // 2
        if bytes_from(middle) <= limit:
            high = middle
        else:
            low = middle + 1
    return low


def _unsettled(topic: Topic, partition: int, first: int) -> int:
    """How many of the messages below `first` some group has not settled or some reader has not passed."""
    lost = 0
    for group in topic.groups.values():
        progress = group.partitions[partition]
        if progress.floor < first:
            delivered = progress.ahead[: first - progress.floor]
            lost = max(lost, first - progress.floor - delivered.count(1))
    for positions in topic.readers.values():
        lost = max(lost, first - positions[partition])
    return lost
