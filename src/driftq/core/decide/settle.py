"""The end of deliveries: ack, nack, extend, expiry, release.

A delivery can be settled only by the owner that holds it, while its lease runs. Anything else is refused
and changes nothing.
"""

from collections.abc import Callable, Sequence

import msgspec

from driftq.core.commands import Ack, Extend, Nack
from driftq.core.dead_lettered import MAX_ATTEMPTS, NOT_RETRYABLE, DeadLettered
from driftq.core.decide.ack_columns import settle_usual
from driftq.core.decide.backoff import retry_delay_ms
from driftq.core.group import ACK_TIMEOUT, CONSUMER_CLOSED, Group, GroupPartition
from driftq.core.lease import Credit
from driftq.core.records import (
    CAUSE_EXPIRED,
    CAUSE_NACKED,
    CAUSE_RELEASED,
    CAUSE_UNSTARTED,
    SETTLED_BY_ACK,
    DeliveriesEnded,
    EndedDelivery,
    LeaseExtended,
    MessagesSettled,
    settled_between,
)
from driftq.core.state import State, Topic
from driftq.errors import (
    AlreadySettled,
    DriftQError,
    InvalidArgument,
    NoCurrentDelivery,
    NotOwner,
    StaleAttempt,
)
from driftq.model.options.limits import LEASE_MS_MAX


def check_place(topic: Topic, *, partition: int, offset: int) -> None:
    """Refuse an invalid partition or offset."""
    if not 0 <= partition < len(topic.partitions):
        raise InvalidArgument("partition", f"must be from 0 to {len(topic.partitions) - 1}")
    if offset < 0:
        raise InvalidArgument("offset", "must not be negative")


def _require_current(
    progress: GroupPartition, ordinal: int, *, owner: str, attempt: int | None, now: int
) -> None:
    block = progress.leases.leased.get(ordinal)
    if block is None or block.until <= now:
        raise NoCurrentDelivery
    if block.owner != owner:
        raise NotOwner
    if attempt is not None:
        held = progress.attempts.get(ordinal, progress.attempt_base + 1)
        if attempt != held:
            raise StaleAttempt(held=held, given=attempt)


class _PartitionAcks:
    """The acks of one partition that settle a message."""

    __slots__ = ("first", "fresh", "last", "leased", "progress", "shift")

    def __init__(self, progress: GroupPartition) -> None:
        self.progress = progress
        self.leased = progress.leases.leased
        self.fresh: dict[int, None] = {}
        self.first, self.last, self.shift = progress.index.dense_tail()


def decide_acks(
    topic: Topic, group: Group | None, acks: Sequence[Ack], *, now: int
) -> tuple[list[MessagesSettled], list[DriftQError | None]]:
    """One record for each partition with acks that settle a message, and the outcome of each ack."""
    if group is not None and len(acks) > 1:
        usual = settle_usual(group, acks, now)
        if usual is not None:
            return usual, [None] * len(acks)
    by_partition: dict[int, _PartitionAcks] = {}
    outcomes: list[DriftQError | None] = [None] * len(acks)
    for slot, ack in enumerate(acks):
        acks_here = by_partition.get(ack.partition)
        offset = ack.offset
        if acks_here is not None and acks_here.first <= offset <= acks_here.last and ack.attempt is None:
            ordinal = offset + acks_here.shift
            block = acks_here.leased.get(ordinal)
            if block is not None and block.owner == ack.owner and block.until > now:
                acks_here.fresh[ordinal] = None
                continue
        try:
            if acks_here is None:
                check_place(topic, partition=ack.partition, offset=offset)
                if group is None:
                    raise NoCurrentDelivery
                acks_here = by_partition[ack.partition] = _PartitionAcks(group.partitions[ack.partition])
            _judge(topic, acks_here, ack, now)
        except DriftQError as refused:
            outcomes[slot] = refused
    if group is None:
        return [], outcomes
    records = [
        settled(group, partition, list(acks_here.fresh), cause=SETTLED_BY_ACK, now=now)
        for partition, acks_here in by_partition.items()
        if acks_here.fresh
    ]
    return records, outcomes


def _judge(topic: Topic, acks_here: _PartitionAcks, ack: Ack, now: int) -> None:
    """Count the ack as fresh, or as done before; raises when it is refused."""
    check_place(topic, partition=ack.partition, offset=ack.offset)
    progress = acks_here.progress
    ordinal = progress.index.find(ack.offset)
    if ordinal is None:
        if _was_dropped(topic, progress, ack.offset):
            return
        raise NoCurrentDelivery
    if progress.is_settled(ordinal) or ordinal in acks_here.fresh:
        return
    _require_current(progress, ordinal, owner=ack.owner, attempt=ack.attempt, now=now)
    acks_here.fresh[ordinal] = None


def _was_dropped(topic: Topic, progress: GroupPartition, offset: int) -> bool:
    """Whether a message of this topic was settled and has been dropped since.

    Offsets below the topic's first belong to an earlier topic of this name: their state is unknown.
    """
    return topic.start_offset <= offset < progress.index.first_offset


def _current(
    topic: Topic,
    group: Group | None,
    *,
    partition: int,
    offset: int,
    owner: str,
    attempt: int | None,
    now: int,
) -> tuple[Group, GroupPartition, int]:
    """The current delivery, if this owner and attempt may end or extend it."""
    check_place(topic, partition=partition, offset=offset)
    if group is None:
        raise NoCurrentDelivery
    progress = group.partitions[partition]
    ordinal = progress.index.find(offset)
    if ordinal is None and _was_dropped(topic, progress, offset):
        raise AlreadySettled
    if ordinal is None:
        raise NoCurrentDelivery
    if progress.is_settled(ordinal):
        raise AlreadySettled
    _require_current(progress, ordinal, owner=owner, attempt=attempt, now=now)
    return group, progress, ordinal


def decide_nack(
    state: State, topic: Topic, group: Group | None, nack: Nack, *, now: int, jitter: float
) -> DeliveriesEnded | DeadLettered:
    """The delivery failed: the message waits, longer after each try, or is dead-lettered.

    One that no handler began is due at once and does not count as a try.
    """
    _check_unstarted(nack)
    found, progress, ordinal = _current(
        topic,
        group,
        partition=nack.partition,
        offset=nack.offset,
        owner=nack.owner,
        attempt=nack.attempt,
        now=now,
    )
    cause, due_at = CAUSE_UNSTARTED, now
    if nack.started:
        tries = progress.tries_of(ordinal)
        terms = state.terms[progress.index.specials.terms_at(ordinal)]
        if topic.has_dead_letters and (not nack.retryable or 0 < terms.max_attempts <= tries):
            error = nack.reason or progress.errors.get(ordinal, "")
            dead = _exhausted(topic, found, nack.partition, ordinal, last_error=error)
            return dead if nack.retryable else msgspec.structs.replace(dead, reason=NOT_RETRYABLE)
        cause, due_at = CAUSE_NACKED, now + retry_delay_ms(terms, attempt=tries, nacked=True, jitter=jitter)
    ended = EndedDelivery(ordinal=ordinal, due_at=due_at, error=nack.reason)
    return DeliveriesEnded(at=now, group=found.id, partition=nack.partition, cause=cause, ended=[ended])


def _check_unstarted(nack: Nack) -> None:
    """A delivery that no handler began has not failed: it has no reason, and cannot be non-retryable."""
    if not nack.started and nack.reason:
        raise InvalidArgument("reason", "says why a delivery failed, and with started=false none has")
    if not nack.started and not nack.retryable:
        raise InvalidArgument("retryable", "must not be false with started=false")


def _exhausted(topic: Topic, group: Group, partition: int, ordinal: int, *, last_error: str) -> DeadLettered:
    """The message has used up its attempts."""
    return DeadLettered(
        topic=topic.name,
        group=group.name,
        partition=partition,
        ordinal=ordinal,
        attempts=group.partitions[partition].attempt_of(ordinal),
        last_error=last_error,
        reason=MAX_ATTEMPTS,
    )


def decide_extend(topic: Topic, group: Group | None, extend: Extend, *, now: int) -> LeaseExtended:
    """Extend the lease to `lease_ms` from now."""
    if not 1 <= extend.lease_ms <= LEASE_MS_MAX:
        raise InvalidArgument("lease_ms", f"must be from 1 to {LEASE_MS_MAX}")
    found, _, ordinal = _current(
        topic,
        group,
        partition=extend.partition,
        offset=extend.offset,
        owner=extend.owner,
        attempt=extend.attempt,
        now=now,
    )
    return LeaseExtended(
        at=now, group=found.id, partition=extend.partition, ordinal=ordinal, lease_ms=extend.lease_ms
    )


def decide_expiries(
    state: State, topic: Topic, group: Group, partition: int, *, now: int, jitter: Callable[[], float]
) -> tuple[DeliveriesEnded | None, list[DeadLettered]]:
    """Expired leases: their messages are due again after their backoff, or dead-lettered."""
    progress = group.partitions[partition]
    ended: list[EndedDelivery] = []
    dead: list[DeadLettered] = []
    for block in progress.leases.expired(now):
        for ordinal in progress.leases.leased_by(block):
            number = progress.index.specials.terms_at(ordinal)
            if not number:
                ended.append(EndedDelivery(ordinal=ordinal, due_at=block.until, error=""))
                continue
            terms, tries = state.terms[number], progress.tries_of(ordinal)
            if topic.has_dead_letters and 0 < terms.max_attempts <= tries:
                error = progress.errors.get(ordinal, ACK_TIMEOUT)
                dead.append(_exhausted(topic, group, partition, ordinal, last_error=error))
            else:
                wait = retry_delay_ms(terms, attempt=tries, nacked=False, jitter=jitter())
                ended.append(EndedDelivery(ordinal=ordinal, due_at=block.until + wait, error=""))
    record = (
        DeliveriesEnded(at=now, group=group.id, partition=partition, cause=CAUSE_EXPIRED, ended=ended)
        if ended
        else None
    )
    return record, dead


def decide_release(
    state: State, topic: Topic, group: Group, credit: Credit, *, now: int, jitter: Callable[[], float]
) -> tuple[list[DeliveriesEnded], list[DeadLettered]]:
    """A consumer that disconnects releases all its deliveries.

    The broker cannot know whether the consumer ended in order or was killed by a message, so these count as
    tries: after the first a message is due at once, later it waits as after a nack, and after the last it is
    dead-lettered.
    """
    records: list[DeliveriesEnded] = []
    dead: list[DeadLettered] = []
    for partition, progress in enumerate(group.partitions):
        ended: list[EndedDelivery] = []
        for ordinal, block in progress.leases.leased.items():
            if block.credit is not credit:
                continue
            tries = progress.tries_of(ordinal)
            terms = state.terms[progress.index.specials.terms_at(ordinal)]
            if topic.has_dead_letters and 0 < terms.max_attempts <= tries:
                dead.append(_exhausted(topic, group, partition, ordinal, last_error=CONSUMER_CLOSED))
                continue
            wait = retry_delay_ms(terms, attempt=tries, nacked=True, jitter=jitter()) if tries > 1 else 0
            ended.append(EndedDelivery(ordinal=ordinal, due_at=now + wait, error=""))
        if ended:
            records.append(
                DeliveriesEnded(
                    at=now, group=group.id, partition=partition, cause=CAUSE_RELEASED, ended=ended
                )
            )
    return records, dead


def settled(
    group: Group, partition: int, ordinals: Sequence[int], *, cause: int, now: int
) -> MessagesSettled:
    """Settle these messages, none twice, for the group."""
    return settled_between(
        group.id, partition, ordinals, low=min(ordinals), high=max(ordinals), cause=cause, now=now
    )
