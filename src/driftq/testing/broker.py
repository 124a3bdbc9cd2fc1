"""A broker for stories: it answers at once, on a clock that you move and a disk whose power you cut."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from driftq.core.commands import Ack, Extend, Nack
from driftq.core.decide.produce import Outcome
from driftq.errors import DriftQError
from driftq.model import DeliveryLine, Message, TopicOptions
from driftq.model.options.limits import Limits
from driftq.server.dlq.stage import RedriveOutcome, RedriveRequest
from driftq.server.requests import (
    ExtendRequest,
    JoinRequest,
    LeaveRequest,
    NackRequest,
    ReadRequest,
    TopicRequest,
)
from driftq.server.topics.views import TopicView, topic_view
from driftq.testing.check_delivered import Listener
from driftq.testing.clock import VirtualClock
from driftq.testing.consumer import SimConsumer, SimWorker
from driftq.testing.disk import SimFolder
from driftq.testing.edge_requests import ack_request, produce_request
from driftq.testing.loop import Latency
from driftq.testing.machine import Machine, MachineOptions


@dataclass(frozen=True, slots=True)
class Handed:
    """A delivery with everything that its settlement needs."""

    topic: str
    group: str
    owner: str
    partition: int
    offset: int
    attempt: int
    value: str
    last_error: str
    at: int
    """When it arrived."""


class SimStream:
    """One consumer's open stream, and its deliveries so far."""

    def __init__(self, consumer: SimConsumer, received: deque[Handed]) -> None:
        self.consumer = consumer
        self.received = received

    def take(self) -> list[Handed]:
        """Everything that has arrived since the last call."""
        taken = list(self.received)
        self.received.clear()
        return taken


class SimBroker:
    """A broker with one topic to begin with, `orders`; its calls raise the engine's errors."""

    def __init__(
        self,
        *,
        limits: Limits | None = None,
        partitions: int = 1,
        seed: int = 0,
        segment_bytes: int = 65_536,
        cold_reads: float = 0.0,
    ) -> None:
        self.limits = limits or Limits()
        self.damages: list[Exception] = []
        """The damage that must stop the server."""
        self._random = Random(seed)
        self._options = MachineOptions(
            limits=self.limits,
            segment_bytes=segment_bytes,
            cold_reads=cold_reads,
            latency=Latency(write_ms=0, sync_ms=0, read_ms=0),
        )
        self.machine = self._start(SimFolder(self._random), VirtualClock())
        self.create_topic("orders", partitions=partitions)

    @property
    def clock(self) -> VirtualClock:
        return self.machine.clock

    def _start(self, folder: SimFolder, clock: VirtualClock) -> Machine:
        machine = Machine(
            folder, self._options, clock=clock, random=self._random, on_fatal=self.damages.append
        )
        machine.start()
        machine.loop.run_for(0)
        return machine

    def power_cut(self) -> None:
        """The machine loses power and restarts; all streams are closed."""
        self.machine = self._start(self.machine.folder.crash(), VirtualClock(self.clock.machine_wall()))

    def kill(self, *, wall_set_by_ms: int = 0) -> None:
        """The process is killed and restarted; all streams are closed. The clock may be set in between."""
        clock = VirtualClock(self.clock.machine_wall() + wall_set_by_ms)
        self.machine = self._start(self.machine.folder.process_kill(), clock)

    def pass_time(self, *, ms: int) -> None:
        """Let time pass, with everything that happens in it."""
        self.machine.loop.run_for(ms)

    def create_topic(self, name: str, *, partitions: int = 1) -> None:
        self._ask(
            lambda reply: self.machine.engine.submit(TopicRequest(name, partitions, TopicOptions(), reply))
        )

    def produce(self, *values: str, topic: str = "orders", key: str = "") -> list[int]:
        """Offsets of these messages."""
        outcomes = self.produce_messages([Message(topic=topic, value=value, key=key) for value in values])
        return [_placed(outcome)[1] for outcome in outcomes]

    def produce_messages(self, messages: Sequence[Message], *, atomic: bool = False) -> list[Outcome]:
        outcomes: list[Outcome] = self._ask(
            lambda reply: self.machine.engine.submit(
                produce_request(messages, reply, atomic=atomic, now=self.clock.now())
            )
        )
        return outcomes

    def consume(
        self,
        owner: str,
        *,
        topic: str = "orders",
        group: str = "workers",
        lease_ms: int | None = None,
        prefetch: int = 100,
        release_on_close: bool = False,
        latest: bool = False,
    ) -> SimStream:
        """Open a stream; deliveries that are due have arrived on return."""
        received: deque[Handed] = deque()
        listener = Listener(
            topic=topic,
            group=group,
            owner=owner,
            lease_ms=lease_ms or self.limits.ack_timeout_ms,
            release_on_close=release_on_close,
        )

        def keep(consumer: SimConsumer, delivery: DeliveryLine) -> None:
            received.append(_handed(consumer, delivery, at=self.clock.now()))

        consumer = SimConsumer(listener, SimWorker(owner), on_delivery=keep, prefetch=prefetch, latest=latest)
        self._ask(lambda reply: self.machine.engine.submit(JoinRequest(consumer, reply)))
        return SimStream(consumer, received)

    def close(self, stream: SimStream) -> None:
        self.machine.engine.submit(LeaveRequest(stream.consumer))
        self.pass_time(ms=0)

    def deliver(self, *, to: str, group: str = "workers", lease_ms: int | None = None) -> Handed:
        """One delivery to this owner, whose stream is closed afterwards; IndexError when there is none."""
        stream = self.consume(to, group=group, lease_ms=lease_ms, prefetch=1)
        self.close(stream)
        return stream.take()[0]

    def ack(self, handed: Handed, *, owner: str | None = None, attempt: int | None = None) -> None:
        ack = Ack(owner or handed.owner, handed.partition, handed.offset, attempt or handed.attempt)
        (answer,) = self._ask(
            lambda reply: self.machine.engine.submit(ack_request(handed.topic, handed.group, [ack], reply))
        )
        if answer is not None:
            raise answer

    def nack(self, handed: Handed, reason: str = "", *, started: bool = True) -> None:
        place = (handed.owner, handed.partition, handed.offset)
        nack = Nack(*place, reason=reason, attempt=handed.attempt, started=started)
        self._ask(
            lambda reply: self.machine.engine.submit(NackRequest(handed.topic, handed.group, nack, reply))
        )

    def extend(self, handed: Handed, *, lease_ms: int) -> None:
        extend = Extend(handed.owner, handed.partition, handed.offset, lease_ms, handed.attempt)
        self._ask(
            lambda reply: self.machine.engine.submit(ExtendRequest(handed.topic, handed.group, extend, reply))
        )

    def redrive(
        self, offsets: list[int], *, topic: str = "orders", all_groups: bool = False
    ) -> RedriveOutcome:
        """Redrive these dead letters of a topic."""
        redriven: RedriveOutcome = self._ask(
            lambda reply: self.machine.engine.submit(
                RedriveRequest(topic, offsets, "story", all_groups, reply)
            )
        )
        return redriven

    def view(self, topic: str = "orders") -> TopicView:
        shown: TopicView = self._ask(
            lambda reply: self.machine.engine.read(
                ReadRequest(
                    lambda state: topic_view(
                        state, topic, streams=self.machine.engine.stages.consumers.streams(topic)
                    ),
                    reply,
                )
            )
        )
        return shown

    def _ask(self, ask: Callable[[Callable[[Any], None]], None]) -> Any:
        answers: list[Any] = []
        ask(answers.append)
        self.pass_time(ms=0)
        (answer,) = answers
        if isinstance(answer, DriftQError):
            raise answer
        return answer


def _handed(consumer: SimConsumer, delivery: DeliveryLine, *, at: int) -> Handed:
    return Handed(
        topic=consumer.topic,
        group=consumer.group,
        owner=consumer.owner,
        partition=delivery.partition,
        offset=delivery.offset,
        attempt=delivery.attempts,
        value=delivery.value,
        last_error=delivery.last_error,
        at=at,
    )


def _placed(outcome: Outcome) -> tuple[int, int]:
    if isinstance(outcome, DriftQError):
        raise outcome
    return outcome if isinstance(outcome, tuple) else (outcome.partition, outcome.offset)
