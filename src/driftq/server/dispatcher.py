"""Consumers in their rings, and the dealing out of messages to them.

A ring is the consumers of one group on one topic. It knows which partitions may have something to deliver,
so that a turn looks only there.
"""

from driftq.core.commands import Taker
from driftq.core.group import Group
from driftq.core.lease import Holder
from driftq.core.state import State
from driftq.server.outbox import Outbox
from driftq.server.ports import Consumer

UNSENT_MAX = 1 << 20


class Seat:
    """A consumer in its ring."""

    __slots__ = ("consumer", "holder", "outbox")

    def __init__(self, consumer: Consumer, outbox: Outbox) -> None:
        self.consumer = consumer
        self.holder: Holder = consumer.holder
        self.outbox = outbox

    def room(self) -> int:
        """How many more messages it may hold now."""
        consumer = self.consumer
        if self.outbox.unsent_bytes() >= UNSENT_MAX or self.holder.held_bytes >= consumer.prefetch_bytes:
            return 0
        return max(0, consumer.prefetch - self.holder.held)


class Ring:
    """The consumers of one group."""

    def __init__(self, topic: str, group: str) -> None:
        self.topic = topic
        self.group = group
        self.seats: list[Seat] = []
        self.ready: dict[int, None] = {}
        """Partitions that may have something to deliver, the longest waiting first."""

    def takers(self, group: Group, partition: int) -> tuple[list[Seat], list[Taker]]:
        """Those with room, in the order of their turn."""
        seats: list[Seat] = []
        takers: list[Taker] = []
        average = self._average_bytes(group, partition)
        for seat in self.seats:
            room = seat.room()
            if room:
                left = seat.consumer.prefetch_bytes - seat.holder.held_bytes
                unsent = UNSENT_MAX - seat.outbox.unsent_bytes()
                room = min(room, min(left, unsent) // average + 1)
                seats.append(seat)
                takers.append(Taker(len(takers), seat.consumer.owner, seat.consumer.lease_ms, room))
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

    def passed(self, last: Seat) -> None:
        """This seat got the last message: the turn goes to the one behind it."""
        at = self.seats.index(last) + 1
        self.seats = self.seats[at:] + self.seats[:at]


class Dispatcher:
    """All rings."""

    def __init__(self) -> None:
        self._rings: dict[tuple[str, str], Ring] = {}
        self._by_topic: dict[str, list[Ring]] = {}
        self._awake: dict[Ring, None] = {}

    def rings(self) -> list[Ring]:
        return list(self._rings.values())

    def find(self, topic: str, group: str) -> Ring | None:
        return self._rings.get((topic, group))

    def join(self, seat: Seat, *, partitions: int) -> None:
        consumer = seat.consumer
        name = (consumer.topic, consumer.group)
        ring = self._rings.get(name)
        if ring is None:
            ring = self._rings[name] = Ring(*name)
            self._by_topic.setdefault(consumer.topic, []).append(ring)
        ring.seats.append(seat)
        ring.ready = dict.fromkeys(range(partitions))
        self._awake[ring] = None

    def leave(self, consumer: Consumer) -> Seat | None:
        """The seat that the consumer had; None when it had left before."""
        ring = self._rings.get((consumer.topic, consumer.group))
        seat = next((seat for seat in ring.seats if seat.consumer is consumer), None) if ring else None
        if ring is None or seat is None:
            return None
        ring.seats.remove(seat)
        if not ring.seats:
            del self._rings[consumer.topic, consumer.group]
            self._by_topic[consumer.topic].remove(ring)
            if not self._by_topic[consumer.topic]:
                del self._by_topic[consumer.topic]
            self._awake.pop(ring, None)
        return seat

    def rings_of(self, topic: str, group: str | None = None) -> list[Ring]:
        """The rings of a topic, or the one of a group on it."""
        return [ring for ring in self._by_topic.get(topic, ()) if group in (None, ring.group)]

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

    def awake(self) -> list[Ring]:
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
