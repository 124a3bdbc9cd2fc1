"""The connected consumers, and how many messages each may get now.

The members of a group are the open streams that consume one topic for it. They know which partitions may have
something to deliver, so a turn looks only there.

A stream whose owner gives no sign of life is held back. A stopped process keeps its connection open, and the
kernel accepts everything that is sent to it. If it got as many messages as the others, it would let their
leases expire until none has an attempt left. So a stream whose leases expire without any request from its
owner gets one message at a time: the first when it is due, each further one after the previous lease and a
pause, and the pause doubles. An ack, a nack or an extension by its owner, even a refused one, ends that.
"""

import heapq
import logging
from collections.abc import Sequence
from itertools import count

from driftq.core.commands import Capacity
from driftq.core.group import Group
from driftq.core.lease import Credit
from driftq.core.state import State
from driftq.model import StreamView
from driftq.model.backoff import doubled
from driftq.server.deliver.outbox import Outbox
from driftq.server.ports import ConsumerStream
from driftq.telemetry.log_context import ids

UNSENT_MAX = 1 << 20
STALL_PAUSE_MAX_MS = 30_000
CLOSING_REST_MS = 1_000
"""How long a stream with `release_on_close` gets nothing after its owner returned a message unstarted: one
sent meanwhile would be released, and counted, when the stream closes."""

RUN_MAX = 16
"""Messages of one turn that a stream gets in a run, where runs delay nobody."""
HELD_FOR_ONE = 4
"""So many messages that each stream of a group holds already allow a run to be one longer."""
PACE_MS = 100
"""How often a group's pace is measured."""
QUIET_MS = 500
"""A measurement that took longer says nothing: the group was idle, or its handlers are slow."""
BRISK_MS = 10
"""A group is brisk when its messages are in flight for no longer than this."""

logger = logging.getLogger("driftq.deliver")


class Stall:
    """When a stream without a sign of life gets its next message."""

    __slots__ = ("next_at", "pause_ms")

    def __init__(self, *, lease_ms: int, now: int) -> None:
        self.next_at = now
        self.pause_ms = min(lease_ms, STALL_PAUSE_MAX_MS)

    def delivered(self, *, lease_ms: int, now: int) -> None:
        """The stream got a message now: the next one waits for the end of that lease and for the pause."""
        self.next_at = now + lease_ms + self.pause_ms
        self.pause_ms = doubled(self.pause_ms, cap=STALL_PAUSE_MAX_MS)


class Member:
    """One consumer of a group."""

    __slots__ = ("consumer", "credit", "outbox", "rests_until", "stall")

    def __init__(self, consumer: ConsumerStream, outbox: Outbox) -> None:
        self.consumer = consumer
        self.credit: Credit = consumer.credit
        self.outbox = outbox
        self.stall: Stall | None = None
        """Its owner gives no sign of life."""
        self.rests_until = 0
        """It returned a message unstarted and is probably about to close."""

    def room(self, now: int) -> int:
        """How many more messages it may have in flight now."""
        consumer, credit = self.consumer, self.credit
        if self.outbox.unsent_bytes() >= UNSENT_MAX or credit.in_flight_bytes >= consumer.prefetch_bytes:
            return 0
        room = max(0, consumer.prefetch - credit.in_flight)
        if self.stall is not None:
            return min(1, room) if now >= self.stall.next_at else 0
        return room if now >= self.rests_until else 0


class GroupPace:
    """Whether a group settles its messages as soon as it gets them, so that a run of them delays none."""

    __slots__ = ("_since", "brisk", "settled")

    def __init__(self) -> None:
        self.settled = 0
        """Messages since the last measurement."""
        self.brisk = False
        self._since = 0

    def measure(self, members: Sequence[Member], now: int) -> None:
        """The mean time in flight is what is in flight divided by the rate at which it is settled."""
        took = now - self._since
        if took >= PACE_MS:
            in_flight = sum([member.credit.in_flight for member in members])
            is_fast = self.settled >= took and in_flight * took <= self.settled * BRISK_MS
            self.brisk = took <= QUIET_MS and is_fast
            self.settled, self._since = 0, now


class Members:
    """The consumers of one group, in the order in which they are served."""

    def __init__(self, topic: str, group: str) -> None:
        self.topic = topic
        self.group = group
        self.members: list[Member] = []
        self.by_owner: dict[str, list[Member]] = {}
        self.ready: dict[int, None] = {}
        """Partitions that may have something to deliver, the longest waiting first."""
        self.pace = GroupPace()
        self._busy_run = 1

    def add(self, member: Member) -> None:
        self.members.append(member)
        self.by_owner.setdefault(member.consumer.owner, []).append(member)

    def remove(self, member: Member) -> None:
        self.members.remove(member)
        of_owner = self.by_owner[member.consumer.owner]
        of_owner.remove(member)
        if not of_owner:
            del self.by_owner[member.consumer.owner]

    def look(self, now: int) -> None:
        """A turn begins to deliver to the group: see how its streams are doing."""
        self.pace.measure(self.members, now)
        enough = RUN_MAX * HELD_FOR_ONE
        for member in self.members:
            held = member.credit.in_flight
            if held < enough and member.stall is None:
                enough = held
                if held < 2 * HELD_FOR_ONE:
                    break
        self._busy_run = enough // HELD_FOR_ONE

    def run_length(self, group: Group, partition: int, *, in_flight_max: int) -> int:
        """How many messages a stream gets in its turn: one while others could begin the next ones sooner.

        More where the group is brisk, and where each stream has as many waiting for it or is busy for longer
        with those that it holds.
        """
        if self.pace.brisk:
            return RUN_MAX
        progress = group.partitions[partition]
        share = min(progress.index.end - progress.upto, in_flight_max) // len(self.members)
        return max(1, min(max(share, self._busy_run), RUN_MAX))

    def capacities(
        self, group: Group, partition: int, now: int, *, wanted: int, run: int
    ) -> tuple[list[Member], list[Capacity]]:
        """Members in their order, and the credit of each: as many as take what is wanted in runs."""
        members: list[Member] = []
        capacities: list[Capacity] = []
        average = self._average_bytes(group, partition)
        for member in self.members:
            room = member.room(now)
            if room:
                consumer = member.consumer
                left = consumer.prefetch_bytes - member.credit.in_flight_bytes
                unsent = UNSENT_MAX - member.outbox.unsent_bytes()
                room = min(room, min(left, unsent) // average + 1)
                members.append(member)
                stalled = member.stall is not None
                capacities.append(Capacity(len(capacities), consumer.owner, consumer.lease_ms, room, stalled))
                wanted -= min(room, run)
                if wanted <= 0:
                    break
        return members, capacities

    @staticmethod
    def _average_bytes(group: Group, partition: int) -> int:
        """Of the next messages."""
        progress = group.partitions[partition]
        stop = min(progress.index.end, progress.upto + 100)
        count = stop - progress.upto
        if count <= 0:
            return 1
        size = progress.index.bytes_upto(stop) - progress.index.bytes_upto(progress.upto)
        return max(1, size // count)

    def rotate_behind(self, last: Member) -> None:
        """This member got the last message: the member after it is served next."""
        at = self.members.index(last) + 1
        self.members = self.members[at:] + self.members[:at]


class Consumers:
    """The members of all groups, and which groups a turn has to look at."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, str], Members] = {}
        self.by_topic: dict[str, list[Members]] = {}
        """The groups of a topic that have consumers; a topic without any is missing."""
        self._awake: dict[Members, None] = {}
        self.alarms: list[tuple[int, int, Members]] = []
        """When a held-back stream may get a message; a number separates equal times."""
        self._numbers = count()

    def join(self, member: Member, *, partitions: int) -> None:
        consumer = member.consumer
        name = (consumer.topic, consumer.group)
        members = self._groups.get(name)
        if members is None:
            members = self._groups[name] = Members(*name)
            self.by_topic.setdefault(consumer.topic, []).append(members)
        members.add(member)
        members.ready = dict.fromkeys(range(partitions))
        self._awake[members] = None

    def leave(self, consumer: ConsumerStream) -> Member | None:
        """The consumer's member; None when it had left before."""
        members = self._groups.get((consumer.topic, consumer.group))
        if members is None:
            return None
        member = next((member for member in members.members if member.consumer is consumer), None)
        if member is None:
            return None
        members.remove(member)
        if not members.members:
            del self._groups[consumer.topic, consumer.group]
            self.by_topic[consumer.topic].remove(members)
            if not self.by_topic[consumer.topic]:
                del self.by_topic[consumer.topic]
            self._awake.pop(members, None)
        return member

    def find(self, topic: str, group: str | None = None) -> list[Members]:
        """The members of every group of a topic, or of one."""
        return [members for members in self.by_topic.get(topic, ()) if group in (None, members.group)]

    def streams(self, topic: str) -> list[StreamView]:
        """The open streams of a topic, for topic views."""
        return [
            StreamView(
                members.group, member.consumer.owner, member.credit.in_flight, member.stall is not None
            )
            for members in self.find(topic)
            for member in members.members
        ]

    def was_reset(self, topic: str, group: str, *, partitions: int) -> None:
        """No message of the group is in flight, and every partition may have messages to deliver."""
        for members in self.find(topic, group):
            self._start_over(members, partitions=partitions)

    def stored(self, topic: str, partitions: "set[int] | range") -> None:
        """These partitions have new messages."""
        for members in self.by_topic.get(topic, ()):
            members.ready.update(dict.fromkeys(partitions))
            self._awake[members] = None

    def wake(self, topic: str, group: str, partition: int | None = None, *, settled: int = 0) -> None:
        """Something changed for this group, so many were settled: the next turn looks at it."""
        members = self._groups.get((topic, group))
        if members is not None:
            members.pace.settled += settled
            if partition is not None:
                members.ready[partition] = None
            self._awake[members] = None

    # Signs of life

    def heard(self, topic: str, group: str, owner: str) -> None:
        """An ack, a nack or an extension by this owner arrived, accepted or not."""
        members = self._groups.get((topic, group))
        if members is not None:
            for member in members.by_owner.get(owner, ()):
                member.credit.signs += 1
                if member.stall is not None:
                    member.stall = None
                    self._awake[members] = None

    def returned_unstarted(self, topic: str, group: str, owner: str, *, now: int) -> None:
        """The owner handles no more messages: pause those of its streams that would only release them."""
        members = self._groups.get((topic, group))
        if members is not None:
            for member in members.by_owner.get(owner, ()):
                if member.consumer.release_on_close:
                    member.rests_until = now + CLOSING_REST_MS
                    self._set_alarm(members, member.rests_until)

    def lapsed(self, topic: str, group: str, silent: set[Credit], *, now: int) -> int:
        """Leases of these owners expired without a sign of life: the number of streams newly held back."""
        members = self._groups.get((topic, group))
        stalled = 0
        for member in members.members if members is not None else ():
            if member.credit in silent and member.stall is None:
                stalled += 1
                member.stall = Stall(lease_ms=member.consumer.lease_ms, now=now)
                logger.warning(
                    "%s for group %s: owner %s lets its leases expire and gives no sign of life; "
                    "its stream gets one message at a time",
                    topic,
                    group,
                    member.consumer.owner,
                    extra=ids(topic=topic, group=group),
                )
        return stalled

    def delivered_to_stalled(self, members: Members, member: Member, stall: Stall, *, now: int) -> None:
        """A held-back stream got its one message."""
        stall.delivered(lease_ms=member.consumer.lease_ms, now=now)
        self._set_alarm(members, stall.next_at)

    def _set_alarm(self, members: Members, at: int) -> None:
        heapq.heappush(self.alarms, (at, next(self._numbers), members))

    def wake_due(self, now: int) -> None:
        """Wake the groups whose held-back streams may get a message now."""
        while self.alarms and self.alarms[0][0] <= now:
            _, _, members = heapq.heappop(self.alarms)
            if members.members:
                self._awake[members] = None

    # The turn

    @property
    def is_awake(self) -> bool:
        """Whether any group needs a look."""
        return bool(self._awake)

    def take_awake(self) -> list[Members]:
        """The groups to look at in this turn, each once."""
        awake = list(self._awake)
        self._awake.clear()
        return awake

    def state_was_folded(self, state: State) -> None:
        """After a fold no message counts as in flight to a stream, and every group needs a look."""
        for members in self._groups.values():
            topic = state.topics.get(members.topic)
            self._start_over(members, partitions=len(topic.partitions) if topic else 0)

    def _start_over(self, members: Members, *, partitions: int) -> None:
        members.ready = dict.fromkeys(range(partitions))
        for member in members.members:
            member.credit.in_flight = member.credit.in_flight_bytes = 0
        self._awake[members] = None
