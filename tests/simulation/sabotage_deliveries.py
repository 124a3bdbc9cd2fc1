"""Ways of breaking releases, unstarted deliveries and stalled streams, each with the promise that it breaks.

For the runs of `work_simulator`, whose messages have retry policies and whose workers are stopped.
"""

from collections.abc import Callable

import pytest

from driftq.core.dead_lettered import DeadLettered
from driftq.core.decide import settle
from driftq.core.group import GroupPartition
from driftq.core.lease import LeaseBlock
from driftq.core.records import CAUSE_RELEASED, CAUSE_UNSTARTED, DeliveriesEnded, EndedDelivery
from driftq.server.deliver.consumers import Consumers, Member, Stall
from driftq.storage.journal import Journal

Sabotage = Callable[[pytest.MonkeyPatch], None]


def give_back_everything_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A release looks neither at the policy nor at how often that happened before."""

    def careless(state, topic, group, credit, *, now, jitter):
        records = []
        for partition, progress in enumerate(group.partitions):
            ended = [
                EndedDelivery(ordinal=ordinal, due_at=now, error="")
                for ordinal, block in progress.leases.leased.items()
                if block.credit is credit
            ]
            if ended:
                records.append(DeliveriesEnded(now, group.id, partition, CAUSE_RELEASED, ended))
        return records, []

    monkeypatch.setattr("driftq.server.settle.stage.decide_release", careless)


def release_without_a_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last try is given up, but those before it come back at full speed."""
    decide = settle.decide_release

    def hasty(*args, now, **fields):
        records, dead = decide(*args, now=now, **fields)
        for record in records:
            for ended in record.ended:
                ended.due_at = now
        return records, dead

    monkeypatch.setattr("driftq.server.settle.stage.decide_release", hasty)


def count_what_was_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GroupPartition, "tries_of", GroupPartition.attempt_of)


def forget_what_was_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """A restart counts it after all."""
    recover = Journal.recover

    def forgetful(self: Journal):
        found = recover(self)
        for group in self.state.groups_by_id.values():
            for progress in group.partitions:
                progress.uncounted.clear()
        return found

    monkeypatch.setattr(Journal, "recover", forgetful)


def count_no_nack(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every nack is taken for one of what was not started."""
    decide = settle.decide_nack

    def lenient(state, topic, group, nack, *, now, jitter):
        decided = decide(state, topic, group, nack, now=now, jitter=jitter)
        if not isinstance(decided, DeadLettered):
            decided.cause = CAUSE_UNSTARTED
        return decided

    monkeypatch.setattr("driftq.server.settle.stage.decide_nack", lenient)


def trust_the_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stopped consumer gets as many messages as any other, until none has a try left."""
    monkeypatch.setattr(Consumers, "lapsed", lambda self, topic, group, silent, *, now: 0)


def never_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """One message at a time, but one after the other."""

    def delivered(self: Stall, *, lease_ms: int, now: int) -> None:
        self.next_at = now + lease_ms

    monkeypatch.setattr(Stall, "delivered", delivered)


def give_the_silent_more_than_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def generous(self: Member, now: int) -> int:
        room = max(0, self.consumer.prefetch - self.credit.in_flight)
        return room if self.stall is None or now >= self.stall.next_at else 0

    monkeypatch.setattr(Member, "room", generous)


def take_a_delivery_for_a_sign_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    charge = LeaseBlock.charge_to

    def noted(self: LeaseBlock, credit, *, size_bytes: int) -> None:
        charge(self, credit, size_bytes=size_bytes)
        credit.signs += 1

    monkeypatch.setattr(LeaseBlock, "charge_to", noted)


CAUGHT: list[tuple[Sabotage, set[str]]] = [
    (give_back_everything_at_once, {"D2", "D3"}),
    (release_without_a_backoff, {"D2"}),
    (count_what_was_not_started, {"D3"}),
    (forget_what_was_not_started, {"D3"}),
    (count_no_nack, {"D3"}),
    (trust_the_silent, {"G1"}),
    (never_pause, {"G1"}),
    (give_the_silent_more_than_one, {"G1"}),
    (take_a_delivery_for_a_sign_of_life, {"G1"}),
]
