"""Acks decided as columns are exactly those that are decided one by one."""

from random import Random

import pytest

from driftq.core.commands import Ack
from driftq.core.decide import decide_acks
from driftq.core.records import MessagesSettled
from tests.unit.core.machine import PureBroker

OWNERS = ("worker-a", "worker-b")


def delivered(random: Random, *, partitions: int) -> PureBroker:
    """Keyed messages over all partitions, in flight to two owners; some of them for the second time."""
    broker = PureBroker(partitions=partitions)
    broker.group()
    for number in range(60):
        broker.produce(f"{number}", key=f"user:{random.randrange(20)}")
    for partition in range(partitions):
        broker.deliver(*((owner, 6) for owner in OWNERS), partition=partition)
    if random.random() < 0.3:
        broker.now += 3_000
        for partition in range(partitions):
            broker.expire(partition=partition)
        broker.now += 60_000
        for partition in range(partitions):
            broker.deliver((OWNERS[0], 3), partition=partition)
    if random.random() < 0.2:
        broker.now += 3_000  # The leases are over, and nobody has looked yet.
    return broker


def asked(random: Random, broker: PureBroker) -> list[Ack]:
    """Mostly acks of what is in flight; a few are wrong in every way there is."""
    held = [
        (block.owner, number, progress.index.offset_at(ordinal))
        for number, progress in enumerate(broker.topic.groups["workers"].partitions)
        for ordinal, block in progress.leases.leased.items()
    ]
    random.shuffle(held)
    acks = [Ack(owner, number, offset) for owner, number, offset in held[: random.randint(2, 30)]]
    wrong = random.choice(("", "", "owner", "attempt", "twice", "offset", "partition"))
    if acks and wrong:
        slot = random.randrange(len(acks))
        one = acks[slot]
        acks[slot] = {
            "owner": Ack("nobody", one.partition, one.offset),
            "attempt": Ack(one.owner, one.partition, one.offset, random.choice((1, 2, 7))),
            "twice": acks[0],
            "offset": Ack(one.owner, one.partition, random.choice((0, 59, 60, 10**9))),
            "partition": Ack(one.owner, 99, one.offset),
        }[wrong]
    return acks


def facts(records: list[MessagesSettled]) -> list[tuple[int, list[int]]]:
    """What the records say, whatever their order and that of their messages."""
    return sorted(
        (one.partition, sorted(one.base + delta for delta in memoryview(one.deltas).cast("I")))
        for one in records
    )


@pytest.mark.clause("A1", "A2", "A4")
def test_columns_settle_what_single_looks_settle(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = 0
    for seed in range(400):
        random = Random(seed)
        broker = delivered(random, partitions=random.choice((1, 3)))
        acks = asked(random, broker)
        if not acks:
            continue
        group = broker.topic.groups["workers"]
        records, outcomes = decide_acks(broker.topic, group, acks, now=broker.now)
        with monkeypatch.context() as patched:
            patched.setattr("driftq.core.decide.settle.settle_usual", lambda *_: None)
            singly, judged = decide_acks(broker.topic, group, acks, now=broker.now)
        assert facts(records) == facts(singly), seed
        assert list(map(type, outcomes)) == list(map(type, judged)), seed
        usual += outcomes == [None] * len(acks)
    assert usual > 100


def test_acks_of_two_owners_in_three_partitions_are_one_record_a_partition() -> None:
    broker = PureBroker(partitions=3)
    broker.group()
    for number in range(30):
        broker.produce("v", key=f"user:{number}")
    for partition in range(3):
        broker.deliver(*((owner, 100) for owner in OWNERS), partition=partition)
    group = broker.topic.groups["workers"]
    acks = [
        Ack(block.owner, number, progress.index.offset_at(ordinal))
        for number, progress in enumerate(group.partitions)
        for ordinal, block in progress.leases.leased.items()
    ]
    records, outcomes = decide_acks(broker.topic, group, acks, now=broker.now)
    assert [record.partition for record in records] == [0, 1, 2]
    assert outcomes == [None] * 30
    for record in records:
        broker.fold(record)
    assert [progress.unsettled for progress in group.partitions] == [0, 0, 0]
