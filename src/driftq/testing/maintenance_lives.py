"""Topics that are deleted, bounded in bytes, followed by a reader, and whose group is reset.

Each is a topic of its own beside those of the workload, on the same server and the same disk, with a judge
that knows only what was answered. What a crash or a 503 left open is open for the judge too.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Protocol

from driftq.core.decide.delete import ResetTo
from driftq.errors import DriftQError, Overloaded, TopicNotFound, Unavailable
from driftq.model import DeliveryLine, TopicOptions
from driftq.server.requests import DeleteTopicRequest, ReaderRequest, ResetRequest, TopicRequest
from driftq.testing.checkers import Circumstances, require
from driftq.testing.errands import Errands, MessagePlace

AUDIT = "audit"


class Life(Protocol):
    """One topic and its judge."""

    errands: Errands

    def step(self) -> None:
        """Do one action; called only when the last one is over."""

    def drain(self) -> None:
        """The run is over: look at what is there."""

    def judge(self) -> None: ...


class TopicLife:
    """What the server said about one topic's messages."""

    def __init__(self, errands: Errands, run: Circumstances) -> None:
        self.errands = errands
        self.run = run
        self.random: Random = errands.world.random
        self.there = False
        self.sure: dict[str, MessagePlace] = {}
        """Messages that were confirmed."""
        self.open: set[str] = set()
        """Messages whose outcome is unknown."""
        self.found: dict[int, str] = {}
        """The messages read at the end."""
        self._count = 0

    def create(self, options: TopicOptions) -> None:
        def done(answer: DriftQError | None) -> None:
            self.there = self.there or answer is None

        self.errands.ask(lambda reply: TopicRequest(self.errands.name, 1, options, reply), done)

    def next_value(self) -> str:
        self._count += 1
        return f"{self.errands.name}-{self._count}-" + "x" * self.random.choice((0, 30, 200))

    def produce(self) -> None:
        value = self.next_value()

        def done(answer: DriftQError | None) -> None:
            if isinstance(answer, Unavailable):
                self.open.add(value)

        self.errands.produce(value, done, self.stored)

    def stored(self, place: MessagePlace) -> None:
        self.sure[place.value] = place

    def audit(self) -> None:
        self.errands.listen(AUDIT, self._audited)

    def _audited(self, delivery: DeliveryLine) -> None:
        self.found[delivery.offset] = delivery.value

    def judge_values(self, clause: str) -> None:
        """No message was found that was never produced, and none at another offset than the confirmed one."""
        for offset, value in self.found.items():
            known = value in self.open or (value in self.sure and self.sure[value].offset == offset)
            require(known, clause, f"{self.errands.name} holds {value!r} at {offset}")


class Mortal(TopicLife):
    """A topic that is deleted and recreated: nothing of an earlier topic is ever seen."""

    def __init__(self, errands: Errands, run: Circumstances) -> None:
        super().__init__(errands, run)
        self._unsure = False
        """Whether the last deletion may or may not have happened."""

    def step(self) -> None:
        if self.random.random() < 0.15:
            self.errands.ask(lambda reply: DeleteTopicRequest(self.errands.name, reply), self._deleted)
        elif not self.there or self._unsure:
            self._unsure = False
            self.create(TopicOptions())
        else:
            value = self.next_value()
            self.errands.produce(value, lambda answer: self._refused(value, answer), self.stored)

    def _deleted(self, answer: DriftQError | None) -> None:
        if isinstance(answer, Unavailable):
            self.open |= set(self.sure)
            self.sure.clear()
            self._unsure = True
            return
        if isinstance(answer, TopicNotFound):
            require(not self.there or not self.sure, "T7", f"{self.errands.name} is gone: {answer}")
        self.there = False
        self.sure.clear()
        self.open.clear()

    def _refused(self, value: str, answer: DriftQError | None) -> None:
        if isinstance(answer, Unavailable):
            self.open.add(value)
        elif isinstance(answer, TopicNotFound):
            require(not self.sure, "T7", f"{self.errands.name} is gone with {len(self.sure)} messages")
            self.there = False

    def drain(self) -> None:
        self.audit()

    def judge(self) -> None:
        for offset, value in self.found.items():
            known = value in self.open or value in self.sure
            require(known, "T7", f"{value} at {offset} is of a topic that was deleted")
        if not self.run.drops:
            lost = set(self.sure) - set(self.found.values())
            require(not lost, "W1", f"{self.errands.name}: {lost} are lost")


class Bounded(TopicLife):
    """A topic with `retention_bytes`: the newest stay, as many as fit and no fewer."""

    LIMIT = 700

    def step(self) -> None:
        if self.there:
            self.produce()
        else:
            self.create(TopicOptions(retention_bytes=self.LIMIT))

    def drain(self) -> None:
        # A group that begins now sees what is left when the last trim is over.
        loop = self.errands.world.machine.loop
        loop.at(self.errands.world.now + 1_500, self.audit)

    def judge(self) -> None:
        self.judge_values("T7")
        held = sum(map(len, self.found.values()))
        require(held <= self.LIMIT, "T7", f"{self.errands.name} holds {held} bytes, not {self.LIMIT}")
        if self.run.drops:
            return
        gone = [place for place in self.sure.values() if place.offset not in self.found]
        if not gone:
            return
        newest = max(gone, key=lambda place: place.offset)
        older = [offset for offset in self.found if offset < newest.offset]
        require(not older, "T7", f"{self.errands.name}: {newest} went, and {older} stayed")
        unknown = sum(map(len, self.open - set(self.found.values())))
        fits = held + newest.size_bytes + unknown <= self.LIMIT
        require(not fits, "T7", f"{self.errands.name}: {newest} went although it fits beside {held}")


class Followed(TopicLife):
    """A topic with a registered reader: messages that it has not passed are kept, and cause backpressure."""

    def __init__(self, errands: Errands, run: Circumstances) -> None:
        super().__init__(errands, run)
        self._registered = False
        self._passed = 0
        """The offset, exclusive, up to which the reader may have reported."""
        self._surely_passed = 0

    def step(self) -> None:
        if not self.there:
            self.create(TopicOptions())
        elif not self._registered or self.random.random() < 0.2:
            self._report()
        else:
            self._produce()

    def _report(self) -> None:
        seen = [place.offset + 1 for place in self.sure.values()]
        upto = self.random.choice([self._passed, *sorted(seen)[-4:]]) if self._registered else 0
        upto = max(upto, self._passed)
        self._passed = upto

        def done(answer: DriftQError | None) -> None:
            if answer is None:
                self._registered = True
                self._surely_passed = max(self._surely_passed, upto)

        name = self.errands.name
        self.errands.ask(lambda reply: ReaderRequest(name, "nightly", {0: upto}, reply), done)

    def _produce(self) -> None:
        value = self.next_value()
        limits = self.run.limits
        waiting = [one.size_bytes for one in self.sure.values() if one.offset >= self._passed]
        full = (
            len(waiting) >= limits.partition_messages_max
            or sum(waiting) + len(value) > limits.partition_bytes_max
        )
        maybe = [one.size_bytes for one in self.sure.values() if one.offset >= self._surely_passed]
        maybe += map(len, self.open)
        room = (
            len(maybe) < limits.partition_messages_max
            and sum(maybe) + len(value) <= limits.partition_bytes_max
        )

        def stored(place: MessagePlace) -> None:
            self.stored(place)
            # A reader that was absent for the retention causes no backpressure.
            require(not full or self.run.drops, "P4", f"{value} was taken with {len(waiting)} unread")

        def done(answer: DriftQError | None) -> None:
            if isinstance(answer, Unavailable):
                self.open.add(value)
            elif isinstance(answer, Overloaded):
                require(not room, "P4", f"{value} was refused with {len(maybe)} unread at most")

        self.errands.produce(value, done, stored)

    def drain(self) -> None:
        self.audit()

    def judge(self) -> None:
        self.judge_values("P1")
        for place in self.sure.values():
            if place.offset >= self._passed or not self.run.drops:
                found = self.found.get(place.offset)
                require(found == place.value, "W6", f"{place} was not read and is gone: {found}")


class ResetGroupLife(TopicLife):
    """A topic whose only group is reset sometimes: from there on everything is delivered once more."""

    GROUP = "again"

    def __init__(self, errands: Errands, run: Circumstances) -> None:
        super().__init__(errands, run)
        self._listens = -1
        self._start: int | None = 0
        """The offset from which on all must be delivered; None when a reset is open."""
        self._got: set[int] = set()
        """The deliveries since the last reset was answered."""

    def step(self) -> None:
        if not self.there:
            self.create(TopicOptions())
        elif self._listens != self.run.crashes:
            self._listens = self.run.crashes
            self.errands.listen(self.GROUP, self._delivered)
        elif self.random.random() < 0.15:
            self._reset()
        else:
            self.produce()

    def _reset(self) -> None:
        offsets = [place.offset for place in self.sure.values()]
        newest = max(offsets, default=-1) + 1
        choices: list[tuple[ResetTo, int]] = [("earliest", 0), ("latest", newest)]
        choices += [(offset, offset) for offset in sorted(offsets)[-6:]]
        to, start = self.random.choice(choices)

        def done(answer: DriftQError | None) -> None:
            if answer is None:
                self._start = start
                self._got.clear()
            elif isinstance(answer, Unavailable):
                self._start = None

        self.errands.ask(lambda reply: ResetRequest(self.errands.name, self.GROUP, to, reply), done)

    def _delivered(self, delivery: DeliveryLine) -> None:
        early = self._start is not None and delivery.offset < self._start and not self.run.cold_reads
        known = delivery.value in self.sure  # One that was not confirmed may lie in front of the newest.
        if early and known and not self.errands.busy:
            require(False, "G6", f"{delivery.offset} came to a group that starts at {self._start}")
        self._got.add(delivery.offset)
        self.found[delivery.offset] = delivery.value

    def drain(self) -> None:
        self.errands.listen(self.GROUP, self._delivered)

    def judge(self) -> None:
        self.judge_values("P1")
        if self._start is None or self.run.drops:
            return
        wanted = {place.offset for place in self.sure.values() if place.offset >= self._start}
        missing = sorted(wanted - self._got)
        require(not missing, "G6", f"from {self._start} on, the group never got {missing}")


KINDS: dict[str, Callable[[Errands, Circumstances], Life]] = {
    "mortal": Mortal,
    "bounded": Bounded,
    "followed": Followed,
    "again": ResetGroupLife,
}
