"""The pure machine for stories: commands in, records folded at once, no disk and no clock."""

from __future__ import annotations

from typing import Any

from driftq.core.commands import Ack, AppendByPosition, Capacity, Nack, Produce
from driftq.core.dead_lettered import DeadLettered
from driftq.core.decide import (
    decide_acks,
    decide_deliveries,
    decide_due,
    decide_expiries,
    decide_group,
    decide_nack,
    decide_produce,
    decide_release,
    decide_skips,
    decide_topic,
    settled,
)
from driftq.core.decide.positions import AppendedMessages, decide_append, decide_writer
from driftq.core.decide.produce import Outcome
from driftq.core.evolve.fold import evolve
from driftq.core.group import GroupPartition
from driftq.core.keys import MessageRef, fingerprint
from driftq.core.lease import Credit
from driftq.core.records import (
    SETTLED_DEAD,
    DeliveryTerms,
    MessagesDelivered,
    MessagesSettled,
    Record,
    unpack_array,
)
from driftq.core.state import State, Topic
from driftq.errors import DriftQError
from driftq.model import Envelope, StoredMessage, TopicOptions
from driftq.model.options.limits import Limits


class PureBroker:
    """One topic, `orders`, and whatever groups a story asks for. Time is what the story says."""

    def __init__(self, *, partitions: int = 1, limits: Limits | None = None) -> None:
        self.now = 1_000
        self.wall_ahead_ms = 0
        self.state = State(limits or Limits())
        self.stored: dict[int, Produce] = {}
        record = decide_topic(
            self.state, "orders", partitions=partitions, options=TopicOptions(), now=self.now
        )
        assert record is not None
        self.fold(record)

    @property
    def wall(self) -> int:
        """What the wall clock says."""
        return self.now + self.wall_ahead_ms

    @property
    def topic(self) -> Topic:
        return self.state.topics["orders"]

    def fold(self, record: Record) -> None:
        evolve(self.state, record, segment=1, blob_at=0)

    def group(self, name: str = "workers", *, latest: bool = False) -> None:
        record = decide_group(self.state, self.topic, name, latest=latest, now=self.now)
        if record is not None:
            self.fold(record)

    def produce(self, *values: str, **fields: Any) -> list[Outcome]:
        return self.produce_commands([command(value, **fields) for value in values])

    def produce_commands(self, commands: list[Produce]) -> list[Outcome]:
        batch = decide_produce(
            self.state, self.topic, commands, lookup=self.lookup, now=self.now, wall=self.wall
        )
        for record, _ in batch.records:
            self.fold(record)
        for asked, outcome in zip(commands, batch.outcomes, strict=True):
            if isinstance(outcome, tuple):
                self.stored[outcome[1]] = asked
        return batch.outcomes

    def open_writer(self, writer: str = "w", *, epoch: int | None = None) -> int:
        record = decide_writer(self.topic, writer, epoch=epoch, now=self.now)
        if record is not None:
            self.fold(record)
        return self.topic.writers[writer].epoch

    def append(self, messages: dict[int, str], **fields: Any) -> AppendedMessages:
        return self.append_at(list(messages), list(messages.values()), **fields)

    def append_at(self, positions: list[int], values: list[str], **fields: Any) -> AppendedMessages:
        return self.append_commands(positions, [command(value) for value in values], **fields)

    def append_commands(
        self,
        positions: list[int],
        commands: list[Produce],
        *,
        writer: str = "w",
        lane: int = 0,
        epoch: int = 1,
        after: int | None = None,
    ) -> AppendedMessages:
        asked = AppendByPosition("orders", writer, lane, epoch, positions, commands, after)
        last = self.topic.writers[writer].position(lane) if writer in self.topic.writers else -1
        decided = decide_append(
            self.state, self.topic, asked, lookup=self.lookup, now=self.now, wall=self.wall
        )
        for record, _ in decided.batch.records:
            self.fold(record)
        fresh = [one for position, one in zip(positions, commands, strict=True) if position > last]
        for one, outcome in zip(fresh, decided.batch.outcomes, strict=True):
            if isinstance(outcome, tuple):
                self.stored[outcome[1]] = one
        if decided.moved is not None:
            self.fold(decided.moved)
        return decided.answer

    def lookup(self, ref: MessageRef) -> StoredMessage:
        asked = self.stored[ref.offset]
        envelope = Envelope(idempotency_key=asked.idempotency_key, tenant_id=asked.tenant_id or None)
        return StoredMessage(asked.key, asked.value, envelope)

    def progress(self, group: str = "workers", partition: int = 0) -> GroupPartition:
        return self.topic.groups[group].partitions[partition]

    def deliver(
        self,
        *capacities: tuple[str, int],
        group: str = "workers",
        partition: int = 0,
        lease_ms: int = 2_000,
        run: int = 1,
    ) -> MessagesDelivered | None:
        """Deliver to consumers given by owner and room."""
        found = self.topic.groups[group]
        coming = decide_skips(self.state, self.topic, found, partition, now=self.now, wall=self.wall)
        assignment = decide_deliveries(
            self.topic.groups[group],
            partition,
            [Capacity(member, owner, lease_ms, room) for member, (owner, room) in enumerate(capacities)],
            limits=self.state.limits,
            now=self.now,
            end=coming.end if coming.delayed else None,
            delayed=coming.delayed,
            run=run,
        )
        if assignment is None:
            return None
        self.fold(assignment.record)
        return assignment.record

    def end_delays(self) -> list[int]:
        """End the delays whose instant has come; their ordinals."""
        ordinals: list[int] = []
        while (record := decide_due(self.state, now=self.now, wall=self.wall)) is not None:
            self.fold(record)
            ordinals += unpack_array("Q", record.ordinals)
        return ordinals

    def ack(
        self, *offsets: int, owner: str = "a", group: str = "workers", attempt: int | None = None
    ) -> tuple[list[MessagesSettled], list[DriftQError | None]]:
        acks = [Ack(owner, 0, offset, attempt) for offset in offsets]
        records, outcomes = decide_acks(self.topic, self.topic.groups.get(group), acks, now=self.now)
        for record in records:
            self.fold(record)
        return records, outcomes

    def nack(
        self,
        offset: int,
        reason: str = "",
        *,
        owner: str = "a",
        attempt: int | None = None,
        retryable: bool = True,
        started: bool = True,
    ) -> None:
        record = decide_nack(
            self.state,
            self.topic,
            self.topic.groups["workers"],
            Nack(owner, 0, offset, reason, attempt, retryable, started),
            now=self.now,
            jitter=0.0,
        )
        assert not isinstance(record, DeadLettered)
        self.fold(record)

    def expire(self, group: str = "workers", *, partition: int = 0) -> int:
        """End the leases that are over; how many."""
        record, _ = decide_expiries(
            self.state, self.topic, self.topic.groups[group], partition, now=self.now, jitter=lambda: 0.0
        )
        if record is None:
            return 0
        self.fold(record)
        return len(record.ended)

    def give_up_or_wait(
        self,
        offset: int,
        reason: str = "",
        *,
        retryable: bool = True,
        group: str = "workers",
        jitter: float = 0.0,
    ) -> int | DeadLettered:
        """Nack: when the message is due again, or the dead letter, which is settled as dead."""
        found = self.topic.groups[group]
        nack = Nack("a", 0, offset, reason, retryable=retryable)
        decided = decide_nack(self.state, self.topic, found, nack, now=self.now, jitter=jitter)
        if isinstance(decided, DeadLettered):
            self._dead_letter([decided], group)
            return decided
        self.fold(decided)
        return decided.ended[0].due_at

    def expire_or_give_up(
        self, group: str = "workers", *, jitter: float = 0.0
    ) -> tuple[dict[int, int], list[DeadLettered]]:
        """End what is over: due times by ordinal, and those given up."""
        found = self.topic.groups[group]
        record, dead = decide_expiries(self.state, self.topic, found, 0, now=self.now, jitter=lambda: jitter)
        if record is not None:
            self.fold(record)
        if dead:
            self._dead_letter(dead, group)
        return {one.ordinal: one.due_at for one in record.ended} if record else {}, dead

    def release(
        self, credit: Credit, group: str = "workers", *, jitter: float = 0.0
    ) -> tuple[dict[int, int], list[DeadLettered]]:
        """A consumer goes: due times by ordinal, and those given up."""
        records, dead = decide_release(
            self.state, self.topic, self.topic.groups[group], credit, now=self.now, jitter=lambda: jitter
        )
        for record in records:
            self.fold(record)
        if dead:
            self._dead_letter(dead, group)
        return {one.ordinal: one.due_at for record in records for one in record.ended}, dead

    def _dead_letter(self, dead: list[DeadLettered], group: str) -> None:
        ordinals = [casualty.ordinal for casualty in dead]
        self.fold(settled(self.topic.groups[group], 0, ordinals, cause=SETTLED_DEAD, now=self.now))


def command(
    value: str,
    *,
    key: str = "",
    idempotency_key: str = "",
    tenant_id: str = "",
    override: int | None = None,
    deadline: int | None = None,
    terms: DeliveryTerms | None = None,
    deliver_at: int | None = None,
) -> Produce:
    return Produce(
        topic="orders",
        requested_topic="orders",
        key=key,
        value=value,
        size_bytes=len(key.encode()) + len(value.encode()),
        entry=value.encode(),
        plain=not idempotency_key and (override, deadline, terms, deliver_at) == (None, None, None, None),
        override=override,
        deadline=deadline,
        terms=terms,
        idempotency_key=idempotency_key,
        tenant_id=tenant_id,
        fingerprint=fingerprint(tenant_id, "orders", idempotency_key) if idempotency_key else 0,
        deliver_at=deliver_at,
    )
