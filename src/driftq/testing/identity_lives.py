"""Groups that are reset and topics that are recreated, with clients that still refer to the earlier ones.

Late acks, keys and effects of an earlier generation arrive after its end. The judges know from the answers
alone which deliveries, offsets and effects belong to which generation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from random import Random
from typing import Any

from driftq.core.commands import Ack
from driftq.core.decide.effects import CommittedEffect
from driftq.core.decide.produce import Duplicate
from driftq.core.records import EffectBegun
from driftq.errors import DriftQError, TopicExists, TopicNotFound, Unavailable
from driftq.model import DeliveryLine, Envelope, Message, TopicOptions
from driftq.server.effects.requests import BeginRequest, CommitRequest
from driftq.server.produce.prepare import prepare
from driftq.server.requests import (
    AckRequest,
    DeleteGroupRequest,
    DeleteTopicRequest,
    ProduceRequest,
    ResetRequest,
    TopicRequest,
)
from driftq.testing.checkers import Circumstances, require
from driftq.testing.errands import Errands
from driftq.testing.maintenance_lives import Life

GROUP = "heirs"
OWNER = "reader"
_BURST = 6
_PAUSE_MS = 150
_KEYS = ("k0", "k1", "k2")


class _Generations(ABC):
    """A topic whose clients hold on to earlier generations."""

    def __init__(self, errands: Errands, run: Circumstances) -> None:
        self.errands = errands
        self.run = run
        self.random: Random = errands.world.random
        self.there = False
        self.generation = 0
        self.hands: list[tuple[int, DeliveryLine]] = []
        """Deliveries that may be acked, each with the generation it belongs to."""
        self._count = 0
        self._listens: tuple[int, int] | None = None

    def step(self) -> None:
        """Some acts in a row, because it takes a few to bring something old to something new."""
        loop, now = self.errands.world.machine.loop, self.errands.world.now
        for number in range(_BURST):
            loop.at(now + number * _PAUSE_MS, self._act_if_free)

    def _act_if_free(self) -> None:
        if not self.errands.busy:
            self.act()

    @abstractmethod
    def act(self) -> None:
        """One act of a client, drawn from the run's seed."""

    def listen(self) -> bool:
        """Open a stream for this generation, if there is none; whether it was opened."""
        wanted = (self.run.crashes, self.generation)
        if self._listens == wanted:
            return False
        self._listens = wanted
        self.errands.listen(GROUP, self.got, acks=False)
        return True

    def got(self, delivery: DeliveryLine) -> None:
        self.hands.append((self.generation, delivery))

    def next_value(self) -> str:
        self._count += 1
        return f"{self.errands.name}-{self._count}"

    def ack(self, heard: Callable[[int, DeliveryLine, DriftQError | None], None]) -> None:
        """Ack some delivery, of whichever generation, with the attempt that it had."""
        generation, delivery = hand = self.random.choice(self.hands)
        self.hands.remove(hand)
        ack = Ack(OWNER, delivery.partition, delivery.offset, delivery.attempts)
        name = self.errands.name

        def answered(answer: Any) -> None:
            heard(generation, delivery, answer if isinstance(answer, DriftQError) else answer[0])

        self.errands.world.say(f"ack {name} {delivery.offset} attempt {delivery.attempts} of {generation}")
        self.errands.send(
            lambda reply: self.errands.world.machine.engine.submit(AckRequest(name, GROUP, [ack], reply)),
            lambda lost: heard(generation, delivery, lost),
            answered,
        )


class Renumbered(_Generations):
    """A group that is reset, or deleted and recreated: no delivery has an earlier one's attempt number."""

    def __init__(self, errands: Errands, run: Circumstances) -> None:
        super().__init__(errands, run)
        self._numbers: set[tuple[int, int]] = set()
        """Every offset with every attempt that was seen."""
        self._acked: set[int] = set()
        """Offsets that this or an unknown generation has acked."""

    def act(self) -> None:
        drawn = self.random.random()
        if not self.there:
            self.errands.ask(
                lambda reply: TopicRequest(self.errands.name, 1, TopicOptions(), reply), self._made
            )
        elif self.listen():
            return
        elif drawn < 0.15:
            self.errands.ask(
                lambda reply: ResetRequest(self.errands.name, GROUP, "earliest", reply), self._renewed
            )
        elif drawn < 0.25:
            self.errands.ask(lambda reply: DeleteGroupRequest(self.errands.name, GROUP, reply), self._renewed)
        elif drawn < 0.75 and self.hands:
            self.ack(self._answered)
        else:
            self.errands.produce(self.next_value(), lambda answer: None, lambda place: None)

    def _made(self, answer: DriftQError | None) -> None:
        self.there = self.there or answer is None

    def _renewed(self, answer: DriftQError | None) -> None:
        if isinstance(answer, Unavailable):
            self.hands.clear()  # Their generation is unknown.
        if answer is None or isinstance(answer, Unavailable):
            self.generation += 1
            self._acked.clear()

    def got(self, delivery: DeliveryLine) -> None:
        number = (delivery.offset, delivery.attempts)
        require(number not in self._numbers, "A7", f"attempt {number[1]} of {number[0]} is handed out twice")
        self._numbers.add(number)
        super().got(delivery)

    def _answered(self, generation: int, delivery: DeliveryLine, answer: DriftQError | None) -> None:
        offset = delivery.offset
        if generation < self.generation and answer is None and not self.run.drops:
            story = f"attempt {delivery.attempts} of {offset} is from before the group began anew"
            require(offset in self._acked, "A7", f"{story}, and its ack settled it")
        elif generation == self.generation or isinstance(answer, Unavailable):
            self._acked.add(offset)

    def drain(self) -> None:
        pass

    def judge(self) -> None:
        pass


class Reborn(_Generations):
    """A topic that is deleted and recreated: its offsets, keys and effects are its own."""

    def __init__(self, errands: Errands, run: Circumstances) -> None:
        super().__init__(errands, run)
        self._unsure = False
        """Whether the last deletion may or may not have happened."""
        self._places: dict[int, str] = {}
        """Which message each offset was said to be, in any generation."""
        self._old: set[int] = set()
        """Offsets of generations that are surely over."""
        self._keys: dict[str, str] = {}
        """The key of each message."""
        self._sure: dict[str, int] = {}
        """Confirmed messages of this generation without an ack."""
        self._grants: list[tuple[int, str, int]] = []
        """Effects under way: generation, key, token."""
        self._done: set[str] = set()
        """Keys whose effect may be committed in this generation."""
        self._drained: set[str] = set()

    def act(self) -> None:
        drawn = self.random.random()
        if not self.there or self._unsure:
            partitions = self.random.choice((1, 2, 3))
            self.errands.ask(
                lambda reply: TopicRequest(self.errands.name, partitions, TopicOptions(), reply), self._made
            )
        elif self.listen():
            return
        elif drawn < 0.12:
            self.errands.ask(lambda reply: DeleteTopicRequest(self.errands.name, reply), self._deleted)
        elif drawn < 0.35 and self.hands:
            self.ack(self._answered)
        elif drawn < 0.5:
            self._begin(self.random.choice(_KEYS))
        elif drawn < 0.65 and self._grants:
            self._commit(self._grants.pop(self.random.randrange(len(self._grants))))
        else:
            self._produce()

    def _made(self, answer: DriftQError | None) -> None:
        if answer is None or isinstance(answer, TopicExists):
            self.there, self._unsure = True, False

    def _deleted(self, answer: DriftQError | None) -> None:
        if isinstance(answer, Unavailable):
            self._unsure = True
            self._lose_track()
        elif answer is None or isinstance(answer, TopicNotFound):
            self.there = False
            self.generation += 1
            self._old.update(self._places)
            self._sure.clear()
            self._done.clear()

    def _lose_track(self) -> None:
        """Whether this generation is over is unknown: nothing of it is judged any more."""
        self.generation += 1
        self.hands.clear()
        self._grants.clear()
        self._sure.clear()
        self._done.update(_KEYS)

    def _produce(self) -> None:
        value, key = self.next_value(), self.random.choice(_KEYS)
        self._keys[value] = key
        message = Message(topic=self.errands.name, value=value, envelope=Envelope(idempotency_key=key))
        command = prepare(message, at=self.errands.world.now)

        def heard(answer: Any) -> None:
            outcome = answer if isinstance(answer, DriftQError) else answer[0]
            if isinstance(outcome, tuple):
                self._told(outcome[1], value)
                self._sure[value] = outcome[1]
            elif isinstance(outcome, Duplicate):
                old = outcome.offset in self._old
                require(not old, "T4", f"{key} is said to be at {outcome.offset}, of a topic that is gone")

        self.errands.world.say(f"produce {self.errands.name} {value} {key}")
        self.errands.send(
            lambda reply: self.errands.world.machine.engine.submit(ProduceRequest([command], reply)),
            lambda lost: None,
            heard,
        )

    def _told(self, offset: int, value: str) -> None:
        known = self._places.setdefault(offset, value)
        require(known == value, "T4", f"{self.errands.name}/{offset} was {known} and is {value}")

    def got(self, delivery: DeliveryLine) -> None:
        self._told(delivery.offset, delivery.value)
        super().got(delivery)

    def _answered(self, generation: int, delivery: DeliveryLine, answer: DriftQError | None) -> None:
        if generation < self.generation and delivery.offset in self._old:
            story = f"{delivery.value} at {delivery.offset} is of a topic that is gone"
            require(answer is not None, "T4", f"{story}, and its ack was taken")
        elif answer is None or isinstance(answer, Unavailable):
            self._sure.pop(delivery.value, None)

    def _begin(self, key: str) -> None:
        identity = ("", self.errands.name, GROUP, key)

        def heard(answer: Any) -> None:
            if isinstance(answer, EffectBegun):
                self._grants.append((self.generation, key, answer.token))
            elif isinstance(answer, CommittedEffect):
                require(key in self._done, "T4", f"the effect of {key} was done for a topic that is gone")

        self._submit(lambda reply: BeginRequest(identity, OWNER, 500, reply), heard)

    def _commit(self, grant: tuple[int, str, int]) -> None:
        generation, key, token = grant
        identity = ("", self.errands.name, GROUP, key)
        if generation == self.generation:
            self._done.add(key)
        self._submit(lambda reply: CommitRequest(identity, OWNER, token, None, reply), lambda answer: None)

    def _submit(self, make: Callable[[Callable[[Any], None]], Any], heard: Callable[[Any], None]) -> None:
        engine = self.errands.world.machine.engine
        self.errands.send(lambda reply: engine.submit(make(reply)), lambda lost: None, heard)

    def drain(self) -> None:
        if self.there and not self._unsure:
            self.errands.listen(GROUP, lambda delivery: self._drained.add(delivery.value))

    def judge(self) -> None:
        if self.run.drops:
            return
        for value, offset in self._sure.items():
            settled = self._keys[value] in self._done or value in self._drained
            require(settled, "I9", f"{value} at {offset} was never acked nor done, and is settled")


IDENTITY_KINDS: dict[str, Callable[[Errands, Circumstances], Life]] = {
    "renumbered": Renumbered,
    "reborn": Reborn,
}
