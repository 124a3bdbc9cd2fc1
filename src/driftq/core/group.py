"""A group's progress in one partition, and the group as a whole.

Every ordinal below `floor` is settled. From there to `upto` each has a byte in `ahead` that is 1 when it was
settled out of order. What is neither leased nor settled and lies below `upto` waits: for its next delivery,
then it is in `waiting`, or, passed over because its producer's instant had not come, for its first.
"""

import heapq
from itertools import islice

from driftq.core.delays import ORDINAL_BITS, DueQueue
from driftq.core.index import PartitionIndex
from driftq.core.lease import LeaseTable

ACK_TIMEOUT = "ack_timeout"
CONSUMER_CLOSED = "consumer_closed"
_ORDINAL_MASK = (1 << ORDINAL_BITS) - 1


class GroupPartition:
    """Where one group stands in one partition."""

    __slots__ = (
        "_ready",
        "_schedule",
        "acked",
        "ahead",
        "ahead_bytes",
        "ahead_count",
        "attempt_base",
        "attempts",
        "delayed",
        "due_first",
        "errors",
        "floor",
        "highest_attempt",
        "index",
        "leases",
        "timer_at",
        "uncounted",
        "upto",
        "waiting",
    )

    def __init__(self, index: PartitionIndex, *, start: int, attempt_base: int = 0) -> None:
        self.index = index
        self.floor = start
        self.upto = start
        """Ordinal after the last one ever delivered."""
        self.acked = -1
        """Highest acked offset."""
        self.delayed = index.specials.count_delayed(start)
        """How many messages from the floor on wait for the instant that their producer gave."""
        self.due_first: DueQueue | None = None
        """Messages that came due after the group had passed over them, for their first delivery."""
        self.ahead = bytearray()
        self.ahead_count = 0
        self.ahead_bytes = 0
        self.leases = LeaseTable()
        self.attempt_base = attempt_base
        """Attempts are numbered above this: those up to it were used before the group was reset."""
        self.highest_attempt = attempt_base
        """The highest attempt ever used here, of settled messages too."""
        self.attempts: dict[int, int] = {}
        """The latest attempt of messages that had more than one, or that wait for the next."""
        self.uncounted: dict[int, int] = {}
        """How many deliveries of a message were returned before a handler began them."""
        self.errors: dict[int, str] = {}
        self.waiting: dict[int, int] = {}
        """When each waiting message may be delivered again."""
        self._schedule: list[int] = []
        self._ready: list[int] = []
        self.timer_at: int | None = None
        """When the server will look at this partition next."""

    @property
    def unsettled(self) -> int:
        return self.index.end - self.floor - self.ahead_count

    @property
    def unsettled_bytes(self) -> int:
        return self.index.total_bytes - self.index.bytes_upto(self.floor) - self.ahead_bytes

    def attempt_of(self, ordinal: int) -> int:
        """Number of the latest delivery, 0 when it was never delivered."""
        if ordinal >= self.upto:
            return 0
        return self.attempts.get(ordinal, self.attempt_base + 1)

    def tries_of(self, ordinal: int) -> int:
        """How many deliveries count for the retry policy.

        Those since the group was reset, without those that no handler began. The attempt number is a fencing
        token and grows with every delivery; `max_attempts` and the backoff use this count.
        """
        return max(0, self.attempt_of(ordinal) - self.attempt_base - self.uncounted.get(ordinal, 0))

    def is_settled(self, ordinal: int) -> bool:
        if ordinal < self.floor:
            return True
        slot = ordinal - self.floor
        return slot < len(self.ahead) and self.ahead[slot] == 1

    def cover(self, upto: int) -> None:
        """Grow `ahead` for the messages that are delivered now."""
        if upto > self.upto:
            self.upto = upto
            missing = upto - self.floor - len(self.ahead)
            if missing > 0:
                self.ahead.extend(bytes(missing))

    def settle(self, ordinal: int) -> None:
        """Mark one unsettled message as settled; `advance` moves the floor afterwards."""
        self.ahead[ordinal - self.floor] = 1
        self.ahead_count += 1
        self.ahead_bytes += self.index.bytes_upto(ordinal + 1) - self.index.bytes_upto(ordinal)
        if self.attempts or self.waiting:
            self._forget(ordinal)

    def _forget(self, ordinal: int) -> None:
        """Drop the facts of its deliveries."""
        self.attempts.pop(ordinal, None)
        self.uncounted.pop(ordinal, None)
        self.errors.pop(ordinal, None)
        self.waiting.pop(ordinal, None)

    def advance(self) -> None:
        """Move the floor over everything that is settled."""
        ahead = self.ahead
        if not ahead or not ahead[0]:
            return
        run = ahead.find(0)
        if run < 0:
            run = len(ahead)
        index = self.index
        self.ahead_bytes -= index.bytes_upto(self.floor + run) - index.bytes_upto(self.floor)
        self.ahead_count -= run
        self.floor += run
        del ahead[:run]

    def settle_run(self, start: int, stop: int) -> None:
        """Settle every message from the floor on up to `stop`, when none of them is settled yet."""
        del self.ahead[: stop - start]
        self.floor = stop
        if self.attempts or self.waiting:
            for ordinal in range(start, stop):
                self._forget(ordinal)
        self.advance()

    def skip_to(self, first: int) -> None:
        """Everything below `first` was dropped: settled or not, the group no longer waits for it."""
        if first <= self.floor:
            return
        index = self.index
        self.delayed -= index.specials.count_delayed(self.floor, first)
        gone = range(self.floor, min(first, self.upto))
        self.leases.release_all(gone)
        if self.ahead_count:
            for ordinal in gone:
                if self.ahead[ordinal - self.floor]:
                    self.ahead_count -= 1
                    self.ahead_bytes -= index.bytes_upto(ordinal + 1) - index.bytes_upto(ordinal)
        if self.attempts or self.waiting:
            for ordinal in gone:
                self._forget(ordinal)
        del self.ahead[: first - self.floor]
        self.floor = first
        self.upto = max(self.upto, first)
        self.advance()

    def wait_until(self, ordinal: int, due_at: int) -> None:
        """Deliver this message again, but not before `due_at`."""
        self.waiting[ordinal] = due_at
        heapq.heappush(self._schedule, due_at << ORDINAL_BITS | ordinal)

    def stop_waiting(self, ordinal: int) -> None:
        self.waiting.pop(ordinal, None)

    def next_due(self) -> int | None:
        """When a message that waits becomes due; those already found due are not counted."""
        schedule = self._schedule
        while schedule:
            due_at, ordinal = schedule[0] >> ORDINAL_BITS, schedule[0] & _ORDINAL_MASK
            if self.waiting.get(ordinal) == due_at:
                return due_at
            heapq.heappop(schedule)
        return None

    def find_due(self, now: int) -> None:
        """Find the waiting messages that have become due."""
        schedule = self._schedule
        while schedule and schedule[0] >> ORDINAL_BITS <= now:
            packed = heapq.heappop(schedule)
            ordinal = packed & _ORDINAL_MASK
            if self.waiting.get(ordinal) == packed >> ORDINAL_BITS:
                heapq.heappush(self._ready, ordinal)

    def due(self, now: int, *, limit: int) -> list[int]:
        """At most `limit` messages to redeliver now, lowest first."""
        self.find_due(now)
        ready: list[int] = []
        heap = self._ready
        while heap and len(ready) < limit:
            ordinal = heapq.heappop(heap)
            due_at = self.waiting.get(ordinal)
            if due_at is not None and due_at <= now and (not ready or ready[-1] != ordinal):
                ready.append(ordinal)
        for ordinal in ready:
            heapq.heappush(heap, ordinal)  # They leave when their delivery is recorded.
        return ready

    def end_delay(self, ordinal: int) -> None:
        """The instant of a delayed message has come; called while it still counts as delayed."""
        if ordinal >= self.floor:
            self.delayed -= 1
            if ordinal < self.upto:
                if self.due_first is None:
                    self.due_first = DueQueue()
                self.due_first.add(ordinal)

    def awaits_first(self, ordinal: int) -> bool:
        """Whether the group has passed over this message and not had it since."""
        return (
            self.floor <= ordinal < self.upto
            and not self.ahead[ordinal - self.floor]
            and ordinal not in self.leases.leased
            and ordinal not in self.waiting
        )

    def first_due(self, *, limit: int) -> list[int]:
        """At most `limit` messages that came due after the group had passed over them, earliest first."""
        self.forget_delivered()
        return list(islice(filter(self.awaits_first, self.due_first or ()), limit))

    def forget_delivered(self) -> None:
        """Drop from the front of `due_first` what was delivered or dropped meanwhile."""
        if self.due_first is not None:
            self.due_first.drop_while(lambda ordinal: not self.awaits_first(ordinal))
            if not self.due_first:
                self.due_first = None

    def has_work(self, now: int) -> bool:
        """Whether anything could be delivered if a consumer had credit."""
        if self.upto < self.index.end or (self.waiting and self.due(now, limit=1)):
            return True
        return self.due_first is not None and bool(self.first_due(limit=1))


class Group:
    """A group of consumers on one topic."""

    __slots__ = ("id", "name", "partitions", "seen_at", "topic")

    def __init__(self, *, id: int, name: str, topic: str, partitions: list[GroupPartition]) -> None:
        self.id = id
        self.name = name
        self.topic = topic
        self.partitions = partitions
        self.seen_at = 0
        """When one of its consumers last got or settled a message."""
