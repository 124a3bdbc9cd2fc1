"""A topic of delayed and other messages, read by groups that were there before and by one that comes later.

A delayed message is never delivered before its instant, and soon after it; it holds up no other message of
its partition, and no crash loses it. The clock may be set back between two lives of the server: what has come
due stays due.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from driftq.errors import DriftQError, Unavailable
from driftq.model import DeliveryLine, Envelope, TopicOptions
from driftq.model.time import rfc3339
from driftq.testing.checkers import Circumstances, require
from driftq.testing.errands import Errands, MessagePlace
from driftq.testing.maintenance_lives import Life, TopicLife

_GROUPS = ("first", "second", "newcomer")
_DELAYS_MS = (-400, 0, 40, 40, 300, 300, 1_000, 3_000)
LATE_MS = 50
"""After its instant, without the ways from the decision to the client and back."""
_FEW = 5


@dataclass(slots=True)
class _ListeningGroup:
    """What one group has had."""

    got: dict[str, int] = field(default_factory=dict)
    """Values with the offset of their delivery."""
    last_plain: int = -1
    """Offset of the last first delivery of a message without an instant, in this life of the server."""
    joined_at: int = 0
    joined_moment: tuple[int, int] = (-1, -1)
    """Crashes, and failed commits of this life of the server, when it joined."""


class DelayLife(TopicLife):
    """What is delayed comes in time."""

    def __init__(self, errands: Errands, run: Circumstances) -> None:
        super().__init__(errands, run)
        self._groups = {name: _ListeningGroup() for name in _GROUPS[:2]}
        self._listens = -1
        self._instants: dict[str, int] = {}
        self._confirmed_at: dict[str, int] = {}
        self._latest_wall = 0
        """The latest time that the wall clock of any life of the server is known to have shown."""
        errands.world.on_crash.append(self._look_at_clock)

    def step(self) -> None:
        self._look_at_clock()
        if not self.there:
            self.create(TopicOptions())
        elif self._listens != self.run.crashes:
            self._listen()
        elif len(self._groups) < len(_GROUPS) and len(self.sure) > _FEW and self.random.random() < 0.1:
            self._groups[_GROUPS[-1]] = _ListeningGroup()
            self._join(_GROUPS[-1])
        else:
            self._produce()

    def _look_at_clock(self) -> None:
        self._latest_wall = max(self._latest_wall, self.errands.world.machine.clock.wall())

    def _listen(self) -> None:
        self._listens = self.run.crashes
        for name, facts in self._groups.items():
            facts.last_plain = -1
            self._join(name)

    def _join(self, name: str) -> None:
        facts = self._groups[name]
        facts.joined_at, facts.joined_moment = self.errands.world.now, self._moment
        self.errands.listen(name, lambda delivery: self._delivered(facts, name, delivery))

    @property
    def _moment(self) -> tuple[int, int]:
        return self.run.crashes, self.errands.world.machine.engine.counters.commit_failures

    def _produce(self) -> None:
        value, delayed = self.next_value(), self.random.random() < 0.6
        world = self.errands.world
        if delayed:
            self._instants[value] = world.machine.clock.wall() + self.random.choice(_DELAYS_MS)
        envelope = Envelope(deliver_at=rfc3339(self._instants[value])) if delayed else None

        def done(answer: DriftQError | None) -> None:
            if isinstance(answer, Unavailable):
                self.open.add(value)

        def stored(place: MessagePlace) -> None:
            self.stored(place)
            self._confirmed_at[value] = world.now

        self.errands.produce(value, done, stored, envelope)

    def _delivered(self, facts: _ListeningGroup, group: str, delivery: DeliveryLine) -> None:
        self._look_at_clock()
        value, instant = delivery.value, self._instants.get(delivery.value)
        name = f"{self.errands.name}/{delivery.offset} for {group}"
        given = delivery.envelope.deliver_at if delivery.envelope is not None else None
        kept = given == (rfc3339(instant) if instant is not None else None)
        require(kept, "P9", f"{name}: its instant was {instant}, it comes with {given}")
        if instant is not None:
            early_ms = instant - self._latest_wall
            require(early_ms <= 0, "P9", f"{name} comes {early_ms} ms before its instant")
        elif delivery.attempts == 1:
            last, facts.last_plain = facts.last_plain, delivery.offset
            require(delivery.offset > last, "T5", f"{name}: a first delivery after {last}")
        if value not in facts.got and value in self._confirmed_at:
            self._judge_lateness(facts, name, value)
        facts.got[value] = delivery.offset

    def _ready_at(self, value: str) -> int:
        """When a confirmed message can be delivered, in engine time, which may be ahead of the wall clock."""
        world = self.errands.world
        lead_ms = world.now - world.machine.clock.wall()
        return max(self._confirmed_at[value], self._instants.get(value, 0) + lead_ms)

    def _judge_lateness(self, facts: _ListeningGroup, name: str, value: str) -> None:
        """What becomes due while a group listens is not late, but for trouble, or if much else is due."""
        now, ready_at = self.errands.world.now, self._ready_at(value)
        due = [one for one in self._confirmed_at if self._ready_at(one) <= now and one not in facts.got]
        if (
            facts.joined_moment != self._moment
            or ready_at <= facts.joined_at
            or self.run.limits.in_flight_max < 20
            or len(due) > _FEW
        ):
            return
        late_ms, allowed_ms = now - ready_at, LATE_MS + 3 * self.run.slack_ms
        require(late_ms <= allowed_ms, "P9", f"{name} comes {late_ms} ms after it was due")

    def drain(self) -> None:
        if self.there:
            self._listen()

    def judge(self) -> None:
        for group, facts in self._groups.items():
            for value, offset in facts.got.items():
                known = value in self.open or self.sure[value].offset == offset
                require(known, "P1", f"{self.errands.name} gave {value!r} at {offset} to {group}")
            lost = sorted(set(self.sure) - set(facts.got))
            whole = not lost or self.run.drops or facts.joined_moment == (-1, -1)
            require(whole, "P9", f"{self.errands.name}: {group} never got {lost}")


DELAY_KINDS: dict[str, Callable[[Errands, Circumstances], Life]] = {"later": DelayLife}
