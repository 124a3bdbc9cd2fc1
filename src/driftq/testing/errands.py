"""Requests of the simulation that are sent one after the other: each is answered, refused, or left open."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from driftq.core.commands import Ack
from driftq.errors import DriftQError, Unavailable
from driftq.model import DeliveryLine, Envelope, Message
from driftq.server.produce.prepare import prepare
from driftq.server.requests import AckRequest, JoinRequest, ProduceRequest
from driftq.server.topics.stage import TopicsRequest
from driftq.testing.check_delivered import Listener
from driftq.testing.consumer import SimConsumer, SimWorker

if TYPE_CHECKING:
    from driftq.testing.world import World

_REJOIN_MS = 400
LEASE_MS = 1_000


@dataclass(frozen=True, slots=True)
class MessagePlace:
    """Where a message was stored."""

    value: str
    partition: int
    offset: int

    @property
    def size_bytes(self) -> int:
        return len(self.value)


Done = Callable[[DriftQError | None], None]
"""Gets None when it succeeded, the error when it was refused, and an Unavailable when it is unknown."""


class Errands:
    """One errand at a time; a crash leaves the one that is under way open."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self._open: Callable[[], None] | None = None
        self._life = 0

    @property
    def busy(self) -> bool:
        return self._open is not None

    def crashed(self) -> None:
        """Earlier requests are not answered any more."""
        self._life += 1
        left, self._open = self._open, None
        if left is not None:
            left()

    def ask(self, make: Callable[[Callable[[Any], None]], TopicsRequest], done: Done) -> None:
        reply = self._reply(done, lambda answer: done(answer if isinstance(answer, DriftQError) else None))
        self.world.machine.engine.submit(make(reply))

    def send(
        self, put: Callable[[Callable[[Any], None]], None], done: Done, heard: Callable[[Any], None]
    ) -> None:
        """Any request; `heard` gets its answer, and `done` an Unavailable when there is none."""
        put(self._reply(done, heard))

    def produce(
        self,
        value: str,
        done: Done,
        stored: Callable[[MessagePlace], None],
        envelope: Envelope | None = None,
    ) -> None:
        """One message without a key, in partition 0 of its topic."""
        self.world.say(f"produce {self.name} {value.rstrip('x')}")

        def answered(answer: Any) -> None:
            outcome = answer if isinstance(answer, DriftQError) else answer[0]
            if isinstance(outcome, DriftQError):
                done(outcome)
            else:
                stored(MessagePlace(value, *outcome))

        command = prepare(Message(topic=self.name, value=value, envelope=envelope), at=self.world.now)
        self.world.machine.engine.submit(ProduceRequest([command], self._reply(done, answered)))

    def _reply(self, done: Done, answered: Callable[[Any], None]) -> Callable[[Any], None]:
        life = self._life
        self._open = lambda: done(Unavailable("a crash"))

        def reply(answer: Any) -> None:
            if life == self._life:
                self._open = None
                self.world.say(f"  {self.name}: {answer}")
                answered(answer)

        return reply

    def listen(self, group: str, got: Callable[[DeliveryLine], None], *, acks: bool = True) -> None:
        """A stream of this topic, until the next crash; if `acks`, it acks every delivery at once."""
        engine, life = self.world.machine.engine, self._life
        listener = Listener(
            topic=self.name, group=group, owner="reader", lease_ms=LEASE_MS, release_on_close=False
        )

        def delivered(consumer: SimConsumer, delivery: DeliveryLine) -> None:
            if life != self._life:
                return
            got(delivery)
            if not acks:
                return
            ack = Ack("reader", delivery.partition, delivery.offset, delivery.attempts)
            engine.submit(AckRequest(self.name, group, [ack], lambda answer: None))

        def joined(answer: DriftQError | None) -> None:
            if isinstance(answer, Unavailable) and life == self._life:
                self.world.machine.loop.at(self.world.now + _REJOIN_MS, join)

        def join() -> None:
            engine.submit(
                JoinRequest(SimConsumer(listener, SimWorker("reader"), on_delivery=delivered), joined)
            )

        join()
