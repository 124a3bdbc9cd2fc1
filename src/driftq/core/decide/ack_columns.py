"""Acks as columns: the usual ones of a turn, decided together.

Usual are current first deliveries of a known owner, none of them twice. In any other case the answer is None
and each ack is judged alone (`settle.py`), so nothing here decides what is refused.
"""

from collections.abc import Sequence

from driftq.core.commands import Ack
from driftq.core.group import Group
from driftq.core.records import SETTLED_BY_ACK, MessagesSettled, settled_between


def settle_usual(group: Group, acks: Sequence[Ack], now: int) -> list[MessagesSettled] | None:
    """One record for each partition; None where an ack needs a closer look."""
    partition = acks[0].partition
    partitions = [ack.partition for ack in acks]
    if partitions.count(partition) == len(partitions):
        alone = _settle(group, partition, acks, now)
        return None if alone is None else [alone]
    by_partition: dict[int, list[Ack]] = {}
    for ack, number in zip(acks, partitions, strict=True):
        by_partition.setdefault(number, []).append(ack)
    records: list[MessagesSettled] = []
    for number, mine in by_partition.items():
        record = _settle(group, number, mine, now)
        if record is None:
            return None
        records.append(record)
    return records


def _settle(group: Group, partition: int, acks: Sequence[Ack], now: int) -> MessagesSettled | None:
    if not 0 <= partition < len(group.partitions):
        return None
    progress = group.partitions[partition]
    first_or_any = (None, progress.attempt_base + 1)
    offsets = [ack.offset for ack in acks if ack.attempt in first_or_any]
    if len(offsets) < len(acks):
        return None
    ordinals = progress.index.ordinals_of(offsets)
    if ordinals is None or len(set(ordinals)) < len(ordinals):
        return None
    again = progress.attempts
    if again and not again.keys().isdisjoint(ordinals):
        return None
    blocks = list(map(progress.leases.leased.get, ordinals))
    for block in set(blocks):
        if block is None or block.until <= now:
            return None
    for block, ack in zip(blocks, acks, strict=True):
        if block is None or block.owner != ack.owner:
            return None
    return settled_between(
        group.id,
        partition,
        ordinals,
        low=min(ordinals),
        high=max(ordinals),
        cause=SETTLED_BY_ACK,
        now=now,
    )
