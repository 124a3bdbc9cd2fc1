"""A topic that is deleted and recreated with other partitions while its messages wait and are dead-lettered.

Its groups are deleted and recreated too, and its dead letters are redriven meanwhile. Topics and groups
change one request at a time, so that what was answered says to which of them a delivery belongs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from driftq.core.commands import Ack, Nack
from driftq.errors import DriftQError, LogError, Unavailable, WritingStopped
from driftq.http import reads
from driftq.log.segment import file_name
from driftq.model import DeliveryLine, Envelope, Message, RetryPolicy, TopicOptions
from driftq.model.time import rfc3339
from driftq.model.topic import DEAD_LETTER_PREFIX
from driftq.server.dlq.pages import dead_letter_page
from driftq.server.dlq.stage import RedriveOutcome, RedriveRequest
from driftq.server.produce.prepare import prepare
from driftq.server.requests import (
    AckRequest,
    DeleteGroupRequest,
    DeleteTopicRequest,
    JoinRequest,
    NackRequest,
    ProduceRequest,
    TopicRequest,
)
from driftq.testing.check_delivered import Listener
from driftq.testing.check_redriven import Copy, RedriveChecker, Stand
from driftq.testing.checkers import require
from driftq.testing.consumer import SimConsumer, SimWorker

if TYPE_CHECKING:
    from driftq.testing.work_world import WorkWorld

TOPIC = "brittle"
DLQ_TOPIC = DEAD_LETTER_PREFIX + TOPIC
GROUPS = ("billing", "search", "ledger")
LEASE_MS = 2_000


@dataclass(frozen=True, slots=True)
class _Hand:
    """A delivery, with the ids of its topic and of its group."""

    topic: int
    group: int
    consumer: SimConsumer
    delivery: DeliveryLine

    @property
    def copy(self) -> Copy:
        return Copy(self.topic, self.delivery.partition, self.delivery.offset)


class DeadLetterLife:
    """What happens to the topic, its groups and its dead letters, drawn from the run's seed."""

    def __init__(self, world: WorkWorld) -> None:
        self._world = world
        self._random = world.random
        self.checker = RedriveChecker()
        self._stand = Stand(None, {})
        self._changing = False
        """Whether a change of the topic or of its groups is under way."""
        self._changes = 0
        self._streams: set[str] = set()
        self._reads_dead_letters = False
        self._values = 0
        self._partitions = 1
        self._hands: list[_Hand] = []
        self._redrives: list[list[int]] = []
        """Redrives that were sent and not answered yet."""

    def restarted(self) -> None:
        """The server was started: its state is durable, and no consumer is connected."""
        for offsets in self._redrives:
            self.checker.perhaps_redriven(offsets)
        self._redrives.clear()
        self._changing = self._reads_dead_letters = False
        self._streams.clear()
        self._look()

    def _look(self) -> None:
        """Which topic and groups there are. Nothing else changes them, so memory says what is durable."""
        topic = self._world.machine.engine.state.topics.get(TOPIC)
        groups = {group.name: group.id for group in topic.groups.values()} if topic is not None else {}
        stand = Stand(topic.id if topic is not None else None, groups)
        if stand.topic != self._stand.topic:
            self._streams.clear()
        self._streams &= set(groups)
        self._stand = stand
        self._hands = [hand for hand in self._hands if self._is_current(hand)]

    def _is_current(self, hand: _Hand) -> bool:
        return hand.topic == self._stand.topic and hand.group in self._stand.groups.values()

    # What is drawn

    def step(self) -> None:
        chance = self._random.random()
        if not self._reads_dead_letters and DLQ_TOPIC in self._world.machine.engine.state.topics:
            self._read_dead_letters()
        elif self._stand.topic is None:
            self._create()
        elif chance < 0.3:
            self._produce()
        elif chance < 0.42:
            self._join()
        elif chance < 0.72:
            self._end_one()
        elif chance < 0.88:
            self._redrive()
        elif chance < 0.94:
            self._delete_group()
        else:
            self._delete()

    def work_off(self) -> bool:
        """Ack all held deliveries and open a stream for every group; whether there was anything to do."""
        if not self._reads_dead_letters and DLQ_TOPIC in self._world.machine.engine.state.topics:
            self._read_dead_letters()
        self._join(only=[group for group in self._stand.groups if group not in self._streams])
        held, self._hands = self._hands, []
        for hand in held:
            self._ack(hand)
        return bool(held)

    def _change(self, story: str, ask: Callable[[Callable[[Any], None]], None]) -> None:
        """Request a change of the topic or its groups, unless one is under way."""
        if self._changing:
            return
        self._changing = True
        self._changes += 1

        def answered(answer: Any) -> None:
            self._changing = False
            self._changes += 1
            if not isinstance(answer, WritingStopped):
                self._look()

        ask(self._world.heard(story, answered))

    def _create(self) -> None:
        partitions = self._random.choice((1, 2, 3, 5))
        if not self._changing:
            self._partitions = partitions
        ask = self._world.machine.engine.submit
        self._change(
            f"create {TOPIC} with {partitions}",
            lambda reply: ask(TopicRequest(TOPIC, partitions, TopicOptions(), reply)),
        )

    def _delete(self) -> None:
        ask = self._world.machine.engine.submit
        self._change(f"delete {TOPIC}", lambda reply: ask(DeleteTopicRequest(TOPIC, reply)))

    def _delete_group(self) -> None:
        if self._stand.groups:
            group = self._random.choice(sorted(self._stand.groups))
            ask = self._world.machine.engine.submit
            self._change(f"delete {group}", lambda reply: ask(DeleteGroupRequest(TOPIC, group, reply)))

    def _join(self, only: list[str] | None = None) -> None:
        free = [group for group in GROUPS if group not in self._streams] if only is None else only
        if not free or self._changing:
            return
        group = self._random.choice(free)
        engine = self._world.machine.engine
        owner = f"w{self._world.now}-{self._changes}"  # Another one each time: old deliveries are not ours.

        def join(reply: Callable[[Any], None]) -> None:
            def joined(answer: Any) -> None:
                if answer is None:
                    self._streams.add(group)
                reply(answer)

            engine.submit(JoinRequest(self._consumer(TOPIC, group, owner, self._received), joined))

        self._change(f"join {TOPIC} {group}", join)

    def _consumer(
        self, topic: str, group: str, owner: str, take: Callable[[SimConsumer, DeliveryLine], None]
    ) -> SimConsumer:
        listener = Listener(topic=topic, group=group, owner=owner, lease_ms=LEASE_MS, release_on_close=False)
        heard = self._world.heard(f"{group} of {topic} gets", lambda given: take(consumer, given))
        consumer = SimConsumer(listener, SimWorker(owner), on_delivery=lambda _, delivery: heard(delivery))
        return consumer

    # Messages

    def _produce(self) -> None:
        random = self._random
        self._values += 1
        value = f"b{self._values}"
        attempts = random.choice((None, 1, 2))
        envelope = Envelope(
            retry_policy=RetryPolicy(attempts, 50, 500) if attempts else None,
            deadline=rfc3339(self._world.now + 400) if random.random() < 0.15 else None,
            partition_override=random.randrange(self._partitions) if random.random() < 0.7 else None,
        )
        message = Message(
            topic=TOPIC,
            value=value,
            key=random.choice(("", "k1", "k2")),
            envelope=envelope,
            headers={"of": value},
        )

        def answered(answer: Any) -> None:
            if isinstance(answer, list) and isinstance(answer[0], tuple) and self._stand.topic is not None:
                self.checker.stored(value, Copy(self._stand.topic, *answer[0]))

        reply = self._world.heard(f"produce {value}", answered)
        command = prepare(message, at=self._world.now)
        self._world.machine.engine.submit(ProduceRequest([command], reply))

    def _received(self, consumer: SimConsumer, delivery: DeliveryLine) -> None:
        group = self._stand.groups.get(consumer.group)
        if group is None or self._stand.topic is None:
            return  # It was on its way when the group was deleted.
        require(
            delivery.headers == {"of": delivery.value}, "P8", f"{delivery.value} came with {delivery.headers}"
        )
        hand = _Hand(self._stand.topic, group, consumer, delivery)
        self.checker.delivered(delivery.value, hand.copy, group=consumer.group, group_id=group)
        self._hands.append(hand)

    def _end_one(self) -> None:
        if not self._hands:
            return
        hand = self._hands.pop(self._random.randrange(len(self._hands)))
        chance = self._random.random()
        if chance < 0.2:
            self._ack(hand)
        elif chance < 0.9:  # Else its lease ends.
            self._give_up(hand)

    def _ack(self, hand: _Hand) -> None:
        consumer, delivery = hand.consumer, hand.delivery
        self.checker.acking(delivery.value, hand.copy, hand.group)
        ack = Ack(consumer.owner, delivery.partition, delivery.offset, delivery.attempts)
        reply = self._world.heard(f"ack {delivery.value}", lambda _: None)
        self._world.machine.engine.submit(AckRequest(TOPIC, consumer.group, [ack], reply))

    def _give_up(self, hand: _Hand) -> None:
        consumer, delivery = hand.consumer, hand.delivery

        def answered(answer: Any) -> None:
            if answer is None:
                self.checker.given_up(delivery.value, hand.copy, group=consumer.group)

        nack = Nack(
            consumer.owner, delivery.partition, delivery.offset, "boom", delivery.attempts, retryable=False
        )
        reply = self._world.heard(f"give up {delivery.value} for {consumer.group}", answered)
        self._world.machine.engine.submit(NackRequest(TOPIC, consumer.group, nack, reply))

    # Dead letters

    def _read_dead_letters(self) -> None:
        self._reads_dead_letters = True

        def joined(answer: Any) -> None:
            self._reads_dead_letters = answer is None

        consumer = self._consumer(DLQ_TOPIC, "audit", "auditor", self._buried)
        reply = self._world.heard(f"join {DLQ_TOPIC}", joined)
        self._world.machine.engine.submit(JoinRequest(consumer, reply))

    def _buried(self, consumer: SimConsumer, delivery: DeliveryLine) -> None:
        engine = self._world.machine.engine
        ack = Ack(consumer.owner, delivery.partition, delivery.offset, delivery.attempts)
        reply = self._world.heard(f"ack letter {delivery.offset}", lambda _: None)
        engine.submit(AckRequest(DLQ_TOPIC, consumer.group, [ack], reply))
        assert delivery.envelope is not None
        assert delivery.envelope.dlq is not None
        partitions = len(engine.state.topics[DLQ_TOPIC].partitions)
        facts = delivery.envelope.dlq
        self.checker.letter(delivery.offset, delivery.partition, delivery.value, facts, partitions=partitions)

    def _redrive(self) -> None:
        known = self.checker.dead_letters
        if not known:
            return
        random = self._random
        offsets = random.sample(known, min(len(known), random.choice((1, 3, 10))))
        all_groups = random.random() < 0.15
        stand, changes, changing = self._stand, self._changes, self._changing
        self.checker.redriving(offsets, all_groups=all_groups)
        self._redrives.append(offsets)

        def answered(answer: RedriveOutcome | DriftQError) -> None:
            self._redrives.remove(offsets)
            if isinstance(answer, RedriveOutcome):
                sure = changes == self._changes and not changing
                now = stand if sure else self._stand
                pending = {offset for other in self._redrives for offset in other}
                self.checker.redriven(offsets, answer, now, all_groups=all_groups, sure=sure, pending=pending)
            elif isinstance(answer, Unavailable):
                self.checker.perhaps_redriven(offsets)

        reply = self._world.heard(f"redrive {offsets} {'for all' if all_groups else ''}", answered)
        request = RedriveRequest(TOPIC, offsets, "ada", all_groups, reply)
        self._world.machine.engine.submit(request)

    # The end

    def judge(self) -> None:
        """Everything was worked off."""
        topic = self._world.machine.engine.state.topics.get(DLQ_TOPIC)
        self.checker.ended(self._stand, set(topic.redriven) if topic is not None else set())

    def judge_damage(self) -> None:
        """Flip a bit of a dead letter: its reader gets an error, and the server stops."""
        machine = self._world.machine
        topic = machine.engine.state.topics.get(DLQ_TOPIC)
        refs = dead_letter_page(topic).refs if topic is not None else []
        if topic is None or not refs:
            return
        ref = self._random.choice(refs)
        index = topic.partitions[ref.partition].index
        place = index.place_at(ref.ordinal)
        machine.folder.open(file_name(place.segment)).flip(place.position + place.length - 2)
        machine.engine.payloads.forget()
        machine.damaged_on_purpose = True
        try:
            with reads.reading(machine.engine):
                machine.engine.payloads.read(index, [ref.ordinal])
        except Unavailable:
            pass
        except LogError as damage:
            require(False, "W4", f"the reader of letter {ref.offset} is not answered with 503: {damage!r}")
        else:
            require(False, "W4", f"letter {ref.offset} is damaged and was read")
        stopped = isinstance(machine.engine.refusal, WritingStopped) and bool(machine.damages)
        require(stopped, "W4", f"letter {ref.offset} is damaged, and the server goes on")
