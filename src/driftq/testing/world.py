"""Clients, and a server that crashes and restarts: the judges observe each action as it happens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from driftq.core.commands import Ack, Extend, Nack
from driftq.errors import DriftQError, Unavailable
from driftq.model import DeliveryLine, TopicOptions
from driftq.server.requests import (
    ExtendRequest,
    JoinRequest,
    LeaveRequest,
    NackRequest,
    ReadRequest,
    TopicRequest,
)
from driftq.server.topics.views import topic_view
from driftq.testing.check_delivered import DeliveryChecker
from driftq.testing.check_pressure import PressureChecker
from driftq.testing.check_read import ReadChecker
from driftq.testing.check_settled import Ask, SettledChecker, SettledFact, Ticket
from driftq.testing.check_stored import StoredChecker
from driftq.testing.checkers import LATE_GROUP, Circumstances, require
from driftq.testing.clock import VirtualClock
from driftq.testing.consumer import Hand, SimConsumer
from driftq.testing.disk import PowerCut, SimFolder
from driftq.testing.edge_requests import ack_request, produce_request
from driftq.testing.intent import Intent
from driftq.testing.machine import MachineOptions, boot


class World:
    """The server, its disk and all its clients."""

    def __init__(
        self, random: Random, options: MachineOptions, *, slack_ms: int, say: Callable[[str], None]
    ) -> None:
        self.random = random
        self.options = options
        self.run = Circumstances(
            options.limits, slack_ms, cold_reads=options.cold_reads > 0 or options.housekeeping
        )
        self.stored = StoredChecker(self.run)
        self.deliveries = DeliveryChecker(self.run, self.stored)
        self.settled = SettledChecker(self.run)
        self.pressure = PressureChecker(self.run, self.stored, self.deliveries)
        self.reads = ReadChecker(self.run, self.stored, self.deliveries)
        self.groups: dict[tuple[str, str], int] = {}
        """When each group was confirmed for the first time."""
        self.consumers: list[SimConsumer] = []
        self.unconfirmed: list[Intent] = []
        """Keyed messages that their producers will send again."""
        self.on_delivery: Callable[[Hand], None] | None = None
        self.on_crash: list[Callable[[], None]] = []
        """Notified when everything under way is lost."""
        self._say = say
        self._tickets: list[Ticket] = []
        self._keyed: dict[int, list[Intent]] = {}
        self._serial = 0
        self.machine = boot(SimFolder(random), options, clock=VirtualClock(), random=random, say=say)

    @property
    def now(self) -> int:
        return self.machine.clock.now()

    def say(self, text: str) -> None:
        self._say(f"{self.now % 10_000_000:>8} {text}")

    # The server's life

    def run_for(self, ms: int) -> None:
        """Let time pass; a planned power cut may strike."""
        try:
            self.machine.loop.run_for(ms)
        except PowerCut:
            self.crash(power=True)
        failures = self.machine.engine.counters.commit_failures
        if failures:
            self.run.failures = max(self.run.failures, failures)

    def crash(self, *, power: bool) -> None:
        """The process is killed, or the machine loses power; then the server is started again."""
        self.say("POWER CUT" if power else "KILLED")
        folder = self.machine.folder
        self._forget_clients()
        self._reboot(folder.crash() if power else folder.process_kill())

    def stop_and_start(self) -> None:
        """A clean stop, after which the state must be the fold of the log."""
        self.say("clean stop")
        machine = self.machine
        try:
            machine.stop()
        except PowerCut:
            self.crash(power=True)
            return
        if machine.engine.refusal is None or machine.engine.refusal.reason == "shutting_down":
            require(not self._keyed, "H6", f"produces {list(self._keyed)} were accepted and never answered")
        self._forget_clients()
        self._reboot(machine.folder.process_kill())

    def _forget_clients(self) -> None:
        self.run.crashes += 1
        self.deliveries.crashed()
        for ticket in self._tickets:
            self.settled.lost(ticket)
        self._tickets.clear()
        self.consumers.clear()
        self.unconfirmed += [intent for intents in self._keyed.values() for intent in intents]
        self._keyed.clear()
        for forget in self.on_crash:
            forget()

    def _reboot(self, folder: SimFolder) -> None:
        """The wall clock may have been set in between, in either direction."""
        jump = self.random.choice((0, 0, 3, 40, 1_500, -700, -5_000))
        clock = VirtualClock(self.now + jump)
        self.machine = boot(folder, self.options, clock=clock, random=self.random, say=self._say)
        self.machine.compare_with_log()
        for topic in self.stored.partitions:
            self.read(topic)

    def may_be_gone(self, topic: str, offset: int, moment: int) -> bool:
        """Whether every group that existed when the message was produced may have settled it."""
        for (name, group), since in self.groups.items():
            if name != topic or since > moment:
                continue
            track = self.deliveries.tracks(topic, group).get(offset)
            if group != LATE_GROUP and (track is None or track.settled is SettledFact.NO):
                return False
        return True

    # What clients do

    def create_topic(self, name: str, partitions: int) -> None:
        def reply(answer: DriftQError | None) -> None:
            self.say(f"topic {name}: {answer}")
            if answer is None:
                known = self.stored.partitions.setdefault(name, partitions)
                require(known == partitions, "T2", f"{name} had {known} partitions, now {partitions}")

        self.machine.engine.submit(TopicRequest(name, partitions, TopicOptions(), reply))

    def produce(self, intents: Sequence[Intent], *, atomic: bool = False) -> None:
        mine = list(intents)
        self._serial += 1
        serial = self._serial
        values = [intent.value.rstrip("x") for intent in mine]
        self.say(f"produce {mine[0].topic} {values}{' atomic' if atomic else ''} #{serial}")
        self.stored.asked(mine, atomic=atomic, now=self.now)
        before = self.pressure.asked(mine, self.groups)
        self._keyed[serial] = [intent for intent in mine if intent.identity is not None]

        def reply(answer: object) -> None:
            self.say(f"  produced #{serial}: {answer}")
            keyed = self._keyed.pop(serial)
            if isinstance(answer, Unavailable):
                self.unconfirmed += keyed
            self.pressure.answered(mine, answer, before, now=self.now)
            self.stored.answered(mine, answer, atomic=atomic, now=self.now)

        messages = [intent.message() for intent in mine]
        self.machine.engine.submit(produce_request(messages, reply, atomic=atomic, now=self.now))

    def join(self, consumer: SimConsumer) -> None:
        name = (consumer.topic, consumer.group)
        self.say(f"join {name} as {consumer.owner}")
        self.consumers.append(consumer)
        self.run.groups_asked.add(name)

        def reply(answer: DriftQError | None) -> None:
            self.say(f"  joined {name} as {consumer.owner}: {answer}")
            if answer is None:
                self.groups.setdefault(name, self.run.next_moment())
            elif consumer in self.consumers:
                consumer.refused = True
                self.consumers.remove(consumer)

        self.machine.engine.submit(JoinRequest(consumer, reply))

    def leave(self, consumer: SimConsumer) -> None:
        self.say(f"leave {consumer.topic} {consumer.group} as {consumer.owner}")
        consumer.open = False
        self.consumers.remove(consumer)
        self.deliveries.left(consumer.listener)
        self.machine.engine.submit(LeaveRequest(consumer))

    def receive(self, consumer: SimConsumer, delivery: DeliveryLine) -> None:
        """A line of a stream has arrived."""
        at = f"{consumer.topic}/{delivery.partition}/{delivery.offset}"
        story = f"attempt {delivery.attempts} {delivery.last_error}"
        self.say(f"  {consumer.owner} of {consumer.group} gets {at} {story}")
        require(not consumer.refused, "G1", f"{consumer.owner} was refused and gets {at}")
        if not consumer.open:
            return
        if consumer.paused_at is not None:
            waited = self.now - consumer.paused_at
            require(waited <= self.run.slack_ms, "G1", f"{consumer.owner} is full and gets {at}")
        self.deliveries.delivered(consumer.listener, delivery, self.now)
        hand = Hand(consumer.topic, consumer.group, delivery)
        consumer.worker.hands.append(hand)
        if self.on_delivery is not None:
            self.on_delivery(hand)

    def ack(self, owner: str, hands: Sequence[Hand], *, with_attempt: bool) -> None:
        """Ack deliveries of one group in one request."""
        tickets = [self._ticket(Ask.ACK, owner, hand, with_attempt=with_attempt) for hand in hands]
        acks = [
            Ack(owner, hand.delivery.partition, hand.delivery.offset, t.attempt)
            for hand, t in zip(hands, tickets, strict=True)
        ]

        def reply(answers: list[DriftQError | None] | DriftQError) -> None:
            self.say(f"  acked by {owner} {offsets}: {answers}")
            each = [answers] * len(tickets) if isinstance(answers, DriftQError) else answers
            for ticket, answer in zip(tickets, each, strict=True):
                self._tickets.remove(ticket)
                self.settled.answered(ticket, answer)

        offsets = [hand.delivery.offset for hand in hands]
        self.say(f"ack by {owner} {hands[0].topic} {hands[0].group} {offsets} {[t.attempt for t in tickets]}")
        self.machine.engine.submit(ack_request(hands[0].topic, hands[0].group, acks, reply))

    def nack(self, owner: str, hand: Hand, *, reason: str = "", started: bool = True) -> None:
        ticket = self._ticket(Ask.NACK, owner, hand, with_attempt=True, reason=reason, started=started)
        place = (owner, hand.delivery.partition, hand.delivery.offset)
        nack = Nack(*place, reason=reason, attempt=ticket.attempt, started=started)
        why = reason if started else "not started"
        self.say(f"nack by {owner} {hand.topic} {hand.group} {hand.delivery.offset}: {why}")
        reply = self._answer_to(ticket)
        self.machine.engine.submit(NackRequest(hand.topic, hand.group, nack, reply))

    def extend(self, owner: str, hand: Hand, *, lease_ms: int) -> None:
        ticket = self._ticket(Ask.EXTEND, owner, hand, with_attempt=True, lease_ms=lease_ms)
        extend = Extend(owner, hand.delivery.partition, hand.delivery.offset, lease_ms, ticket.attempt)
        self.say(f"extend by {owner} {hand.topic} {hand.group} {hand.delivery.offset}: {lease_ms} ms")
        reply = self._answer_to(ticket)
        self.machine.engine.submit(ExtendRequest(hand.topic, hand.group, extend, reply))

    def _answer_to(self, ticket: Ticket) -> Callable[[DriftQError | None], None]:
        def reply(answer: DriftQError | None) -> None:
            self.say(f"  {ticket}: {answer}")
            self._tickets.remove(ticket)
            self.settled.answered(ticket, answer)

        return reply

    def _ticket(
        self,
        ask: Ask,
        owner: str,
        hand: Hand,
        *,
        with_attempt: bool,
        reason: str = "",
        lease_ms: int = 0,
        started: bool = True,
    ) -> Ticket:
        track = self.deliveries.track(hand.topic, hand.group, hand.delivery.offset)
        attempt = hand.delivery.attempts if with_attempt else None
        ticket = self.settled.asked(
            ask,
            track,
            owner=owner,
            attempt=attempt,
            now=self.now,
            reason=reason,
            lease_ms=lease_ms,
            started=started,
        )
        self._tickets.append(ticket)
        return ticket

    def read(self, topic: str) -> None:
        def reply(answer: object) -> None:
            self.reads.answered(topic, answer)

        self.machine.engine.read(ReadRequest(lambda state: topic_view(state, topic), reply))
