"""The events of one topic partition, in the order in which they may be handled.

Each aggregate has a queue. Only the head of a queue is ever claimed, so an aggregate's events never overtake
each other, and a queue that waits for a retry or for another worker blocks no other queue.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from driftq.errors import InvalidArgument
from driftq.eventstore.published import PublishedEvent, decode_published
from driftq.model import Aggregate
from driftq.registry import EventKey
from driftq.registry.parking import ParkedEvent

UNFIT = "unfit"
"""The aggregate type of a message that is no event, and the prefix of its id."""


@dataclass(frozen=True, slots=True)
class TopicEvent:
    """A message that a worker handles."""

    message: ParkedEvent
    key: EventKey
    event: PublishedEvent | None
    problem: str = ""
    """Why it is not an event."""
    from_parking: bool = False

    @classmethod
    def of(cls, message: ParkedEvent, *, from_parking: bool = False) -> TopicEvent:
        """The event in a message; one without an event is identified by its offset on the topic."""
        try:
            event = decode_published(message.value)
        except InvalidArgument as wrong:
            return cls.unfit(message, str(wrong), from_parking=from_parking)
        key = EventKey(event.event_id, event.aggregate_type, event.aggregate_id, event.sequence_number)
        return cls(message, key, event, from_parking=from_parking)

    @classmethod
    def unfit(cls, message: ParkedEvent, problem: str, *, from_parking: bool = False) -> TopicEvent:
        """A message that cannot be claimed under its own id."""
        identity = f"{UNFIT}:{message.topic}/{message.partition}/{message.offset}"
        return cls(message, EventKey(identity, UNFIT, identity, 1), None, problem, from_parking=from_parking)


class AggregateQueue:
    """The waiting events of one aggregate, lower sequences first."""

    def __init__(self, events: Iterable[TopicEvent]) -> None:
        in_order = sorted(events, key=lambda event: (event.key.sequence_number, event.message.offset))
        self.waiting = deque(in_order)
        self.alone = False
        """Its head was interrupted before: it is claimed alone, so that a crash affects no other event."""

    @property
    def head(self) -> TopicEvent:
        return self.waiting[0]

    def done(self) -> TopicEvent:
        """Remove the head."""
        self.alone = False
        return self.waiting.popleft()

    def clear(self) -> list[TopicEvent]:
        """Remove all."""
        left = list(self.waiting)
        self.waiting.clear()
        return left


class AggregateQueues:
    """All queues with an event to handle, each with the time before which claiming is pointless."""

    def __init__(self, events: Iterable[TopicEvent]) -> None:
        by_aggregate: dict[Aggregate, list[TopicEvent]] = {}
        for event in events:
            aggregate = Aggregate(event.key.aggregate_type, event.key.aggregate_id)
            by_aggregate.setdefault(aggregate, []).append(event)
        self._heap: list[tuple[int, int, int, AggregateQueue]] = []
        self._put = 0
        for own in by_aggregate.values():
            self.put(AggregateQueue(own), due=0)

    def __bool__(self) -> bool:
        return bool(self._heap)

    @property
    def next_due(self) -> int:
        return self._heap[0][0]

    def put(self, queue: AggregateQueue, *, due: int) -> None:
        """Put it back, unless it is empty; 0 for at once."""
        if queue.waiting:
            self._put += 1
            heapq.heappush(self._heap, (due, queue.head.message.offset, self._put, queue))

    def take(self, *, now: int, most: int) -> list[AggregateQueue]:
        """The next queues that are due, in the order of their heads on the topic."""
        return list(self._taken(now, most))

    def _taken(self, now: int, most: int) -> Iterator[AggregateQueue]:
        for nth in range(most):
            if not self._heap or self._heap[0][0] > now:
                return
            if self._heap[0][3].alone and nth > 0:
                return
            queue = heapq.heappop(self._heap)[3]
            yield queue
            if queue.alone:
                return
