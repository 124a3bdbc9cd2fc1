"""Consumers in their rings, and the dealing out of messages to them.

A ring is the consumers of one group on one topic. It knows which partitions may have something to deliver,
so that a turn looks only there.
"""

import heapq
import logging
from itertools import count

from driftq.core.commands import Capacity
from driftq.core.group import Group
from driftq.core.lease import Credit
from driftq.core.state import State
from driftq.model import StreamView
from driftq.server.deliver.outbox import Outbox
from driftq.server.deliver.stall import CLOSING_REST_MS, Stall
from driftq.server.ports import ConsumerStream

UNSENT_MAX = 1 << 20

logger = logging.getLogger("driftq.dispatcher")


class Member:
    """A consumer in its ring."""

    __slots__ = ("consumer", "holder", "outbox", "rests_until", "stall")

    def __init__(self, consumer: ConsumerStream, outbox: Outbox) -> None:
        self.consumer = consumer
        self.holder: Credit = consumer.holder
        self.outbox = outbox
        self.stall: Stall | None = None
        """Its owner gives no sign of life."""
        self.rests_until = 0
        """It gave something back unstarted and is probably about to close."""

    def room(self, now: int) -> int:
        """How many more messages it may hold now."""
        consumer = self.consumer
        if self.outbox.unsent_bytes() >= UNSENT_MAX or self.holder.held_bytes >= consumer.prefetch_bytes:
            return 0
        room = max(0, consumer.prefetch - self.holder.held)
        if self.stall is not None:
            return min(1, room) if now >= self.stall.next_at else 0
        return room if now >= self.rests_until else 0


class Members:
    """The consumers of one group."""

    def __init__(self, topic: str, group: str) -> None:
        self.topic = topic
        self.group = group
        self.seats: list[Member] = []
        self.by_owner: dict[str, list[Member]] = {}
        self.ready: dict[int, None] = {}
        """Partitions that may have something to deliver, the longest waiting first."""

    def add(self, seat: Member) -> None:
        self.seats.append(seat)
        self.by_owner.setdefault(seat.consumer.owner, []).append(seat)

    def remove(self, seat: Member) -> None:
        self.seats.remove(seat)
        of_owner = self.by_owner[seat.consumer.owner]
        of_owner.remove(seat)
        if not of_owner:
            del self.by_owner[seat.consumer.owner]

    def takers(self, group: Group, partition: int, now: int) -> tuple[list[Member], list[Capacity]]:
        """Those with room, in the order of their turn."""
        seats: list[Member] = []
        takers: list[Capacity] = []
        average = self._average_bytes(group, partition)
        for seat in self.seats:
            room = seat.room(now)
            if room:
                left = seat.consumer.prefetch_bytes - seat.holder.held_bytes
                unsent = UNSENT_MAX - seat.outbox.unsent_bytes()
                room = min(room, min(left, unsent) // average + 1)
                seats.append(seat)
                stalled = seat.stall is not None
                takers.append(
                    Capacity(len(takers), seat.consumer.owner, seat.consumer.lease_ms, room, stalled)
                )
        return seats, takers

    @staticmethod
    def _average_bytes(group: Group, partition: int) -> int:
        """Of the messages that come next."""
        progress = group.partitions[partition]
        stop = min(progress.index.end, progress.upto + 100)
        count = stop - progress.upto
        if count <= 0:
            return 1
        size = progress.index.bytes_upto(stop) - progress.index.bytes_upto(progress.upto)
        return max(1, size // count)

    def passed(self, last: Member) -> None:
        """This seat got the last message: the turn goes to the one behind it."""
        at = self.seats.index(last) + 1
        self.seats = self.seats[at:] + self.seats[:at]


class Consumers:
    """All rings."""

    def __init__(self) -> None:
        self._rings: dict[tuple[str, str], Members] = {}
        self._by_topic: dict[str, list[Members]] = {}
        self._awake: dict[Members, None] = {}
        self.alarms: list[tuple[int, int, Members]] = []
        """When a ring has a stream that was held back until then; a number keeps them apart."""
        self._numbers = count()

    def rings(self) -> list[Members]:
        return list(self._rings.values())

    def find(self, topic: str, group: str) -> Members | None:
        return self._rings.get((topic, group))

    def join(self, seat: Member, *, partitions: int) -> None:
        consumer = seat.consumer
        name = (consumer.topic, consumer.group)
        ring = self._rings.get(name)
        if ring is None:
            ring = self._rings[name] = Members(*name)
            self._by_topic.setdefault(consumer.topic, []).append(ring)
        ring.add(seat)
        ring.ready = dict.fromkeys(range(partitions))
        self._awake[ring] = None

    def leave(self, consumer: ConsumerStream) -> Member | None:
        """The seat that the consumer had; None when it had left before."""
        ring = self._rings.get((consumer.topic, consumer.group))
        seat = next((seat for seat in ring.seats if seat.consumer is consumer), None) if ring else None
        if ring is None or seat is None:
            return None
        ring.remove(seat)
        if not ring.seats:
            del self._rings[consumer.topic, consumer.group]
            self._by_topic[consumer.topic].remove(ring)
            if not self._by_topic[consumer.topic]:
                del self._by_topic[consumer.topic]
            self._awake.pop(ring, None)
        return seat

    def rings_of(self, topic: str, group: str | None = None) -> list[Members]:
        """The rings of a topic, or the one of a group on it."""
        return [ring for ring in self._by_topic.get(topic, ()) if group in (None, ring.group)]

    def streams(self, topic: str) -> list[StreamView]:
        """The open streams of a topic, for people who look."""
        return [
            StreamView(ring.group, seat.consumer.owner, seat.holder.held, seat.stall is not None)
            for ring in self.rings_of(topic)
            for seat in ring.seats
        ]

    def begin_anew(self, topic: str, group: str, *, partitions: int) -> None:
        """The group was reset: its consumers hold nothing, and there may be something everywhere."""
        for ring in self.rings_of(topic, group):
            ring.ready = dict.fromkeys(range(partitions))
            for seat in ring.seats:
                seat.holder.held = seat.holder.held_bytes = 0
            self._awake[ring] = None

    def stored(self, topic: str, partitions: "set[int] | range") -> None:
        """There are new messages in these partitions."""
        for ring in self._by_topic.get(topic, ()):
            ring.ready.update(dict.fromkeys(partitions))
            self._awake[ring] = None

    def wake(self, topic: str, group: str, partition: int | None = None) -> None:
        """Something changed for this group: look again."""
        ring = self._rings.get((topic, group))
        if ring is not None:
            if partition is not None:
                ring.ready[partition] = None
            self._awake[ring] = None

    # Signs of life

    def heard(self, topic: str, group: str, owner: str) -> None:
        """An ack, a nack or an extension of this owner came, whatever is decided about it."""
        ring = self._rings.get((topic, group))
        if ring is not None:
            for seat in ring.by_owner.get(owner, ()):
                seat.holder.signs += 1
                if seat.stall is not None:
                    seat.stall = None
                    self._awake[ring] = None

    def gave_back_unstarted(self, topic: str, group: str, owner: str, *, now: int) -> None:
        """The owner handles nothing more: its streams that would release what they get take a rest."""
        ring = self._rings.get((topic, group))
        if ring is not None:
            for seat in ring.by_owner.get(owner, ()):
                if seat.consumer.release_on_close:
                    seat.rests_until = now + CLOSING_REST_MS
                    self._set_alarm(ring, seat.rests_until)

    def lapsed(self, topic: str, group: str, silent: set[Credit], *, now: int) -> int:
        """Leases of these ended without a sign of life: how many streams are held back from now on."""
        ring = self._rings.get((topic, group))
        found = 0
        for seat in ring.seats if ring is not None else ():
            if seat.holder in silent and seat.stall is None:
                found += 1
                seat.stall = Stall(lease_ms=seat.consumer.lease_ms, now=now)
                logger.warning(
                    "%s for group %s: owner %s lets its leases lapse and gives no sign of life; "
                    "its stream gets one message at a time",
                    topic,
                    group,
                    seat.consumer.owner,
                )
        return found

    def dealt_to_stalled(self, ring: Members, seat: Member, stall: Stall, *, now: int) -> None:
        """A stream that is held back got its one message."""
        stall.dealt(lease_ms=seat.consumer.lease_ms, now=now)
        self._set_alarm(ring, stall.next_at)

    def _set_alarm(self, ring: Members, at: int) -> None:
        heapq.heappush(self.alarms, (at, next(self._numbers), ring))

    def next_at(self) -> int | None:
        """When a stream that is held back may get something."""
        return self.alarms[0][0] if self.alarms else None

    def wake_held_back(self, now: int) -> None:
        """Look at the rings whose time has come."""
        while self.alarms and self.alarms[0][0] <= now:
            _, _, ring = heapq.heappop(self.alarms)
            if ring.seats:
                self._awake[ring] = None

    # The turn

    @property
    def is_awake(self) -> bool:
        """Whether there is a ring to look at."""
        return bool(self._awake)

    def awake(self) -> list[Members]:
        """The rings to look at in this turn; each once."""
        rings = list(self._awake)
        self._awake.clear()
        return rings

    def restart(self, state: State) -> None:
        """The state was folded anew: nobody is known to hold anything, and all is to be looked at."""
        for ring in self._rings.values():
            topic = state.topics.get(ring.topic)
            ring.ready = dict.fromkeys(range(len(topic.partitions))) if topic else {}
            for seat in ring.seats:
                seat.holder.held = seat.holder.held_bytes = 0
            self._awake[ring] = None
