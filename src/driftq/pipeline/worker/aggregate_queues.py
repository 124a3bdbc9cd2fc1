"""The events of one topic partition, in the order in which they may be handled.

Each aggregate has a lane. Only the head of a lane is ever claimed, so an aggregate's events never overtake
each other, and a lane that waits for a retry or for somebody else holds up no other lane.
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
"""The aggregate type of what is no event, and the start of the id it is known by."""


@dataclass(frozen=True, slots=True)
class TopicEvent:
    """A message in the hands of a worker."""

    place: ParkedEvent
    key: EventKey
    event: PublishedEvent | None
    problem: str = ""
    """Why it is no event."""
    from_parking: bool = False

    @classmethod
    def of(cls, place: ParkedEvent, *, from_parking: bool = False) -> TopicEvent:
        """The event in a message; one that holds none is known by its place on the topic."""
        try:
            event = decode_published(place.value)
        except InvalidArgument as wrong:
            return cls.unfit(place, str(wrong), from_parking=from_parking)
        key = EventKey(event.event_id, event.aggregate_type, event.aggregate_id, event.sequence_number)
        return cls(place, key, event, from_parking=from_parking)

    @classmethod
    def unfit(cls, place: ParkedEvent, problem: str, *, from_parking: bool = False) -> TopicEvent:
        """A message that cannot be claimed as what it says it is."""
        identity = f"{UNFIT}:{place.topic}/{place.partition}/{place.offset}"
        return cls(place, EventKey(identity, UNFIT, identity, 1), None, problem, from_parking=from_parking)


class AggregateQueue:
    """The waiting events of one aggregate, lower sequences first."""

    def __init__(self, events: Iterable[TopicEvent]) -> None:
        in_order = sorted(events, key=lambda one: (one.key.sequence_number, one.place.offset))
        self.waiting = deque(in_order)
        self.alone = False
        """Its head was cut off before: it is not claimed in company, so that it takes nobody along."""

    @property
    def head(self) -> TopicEvent:
        return self.waiting[0]

    def done(self) -> TopicEvent:
        """Take the head off."""
        self.alone = False
        return self.waiting.popleft()

    def clear(self) -> list[TopicEvent]:
        """Take all off."""
        left = list(self.waiting)
        self.waiting.clear()
        return left


class AggregateQueues:
    """All lanes with something to do, each with the time before which asking is pointless."""

    def __init__(self, events: Iterable[TopicEvent]) -> None:
        by_aggregate: dict[Aggregate, list[TopicEvent]] = {}
        for one in events:
            aggregate = Aggregate(one.key.aggregate_type, one.key.aggregate_id)
            by_aggregate.setdefault(aggregate, []).append(one)
        self._heap: list[tuple[int, int, int, AggregateQueue]] = []
        self._put = 0
        for own in by_aggregate.values():
            self.put(AggregateQueue(own), due=0)

    def __bool__(self) -> bool:
        return bool(self._heap)

    @property
    def next_due(self) -> int:
        return self._heap[0][0]

    def put(self, lane: AggregateQueue, *, due: int) -> None:
        """Back among the others, unless it is empty; 0 for at once."""
        if lane.waiting:
            self._put += 1
            heapq.heappush(self._heap, (due, lane.head.place.offset, self._put, lane))

    def take(self, *, now: int, most: int) -> list[AggregateQueue]:
        """The next lanes that are due, in the order of their heads on the topic."""
        return list(self._taken(now, most))

    def _taken(self, now: int, most: int) -> Iterator[AggregateQueue]:
        for nth in range(most):
            if not self._heap or self._heap[0][0] > now:
                return
            if self._heap[0][3].alone and nth > 0:
                return
            lane = heapq.heappop(self._heap)[3]
            yield lane
            if lane.alone:
                return
