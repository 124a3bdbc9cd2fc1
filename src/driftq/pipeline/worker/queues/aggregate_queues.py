"""The events of one task, in the order in which they may be handled.

Each aggregate has a queue. Only the head of a queue is ever claimed, so an aggregate's events never overtake
each other, and a queue that waits for a retry or for another worker blocks no other queue. A queue keeps its
turn until it is empty: the events that parked ones wait for are not all begun at once, and few parked texts
are in memory at a time.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Container, Iterable, Iterator, Sequence

from driftq.model import Aggregate
from driftq.pipeline.worker.queues.topic_event import TopicEvent
from driftq.registry.dead_letters import UNFIT
from driftq.registry.parking import WaitingEvent


class AggregateQueue:
    """The waiting events of one aggregate, lower sequences first."""

    __slots__ = ("aggregate", "alone", "due", "joined", "maybe_parked", "turn", "waiting")

    def __init__(self, aggregate: Aggregate, events: Iterable[TopicEvent]) -> None:
        self.aggregate = aggregate
        self.waiting = deque(_in_order(events))
        self.turn = self.head.message.offset
        self.due = 0
        """The time before which claiming is pointless; 0 for at once."""
        self.alone = False
        """Its head was interrupted before: it is claimed alone, so that a crash affects no other event."""
        self.maybe_parked = any(event.from_parking for event in self.waiting)
        """Some of its events may be in the database, and have to be removed from there."""
        self.joined = self.maybe_parked or aggregate.type == UNFIT
        """Parked events of the aggregate were looked for; a message that is no event has none."""

    @property
    def head(self) -> TopicEvent:
        return self.waiting[0]

    def join(self, parked: Sequence[WaitingEvent]) -> None:
        """Add the parked events of the aggregate that come directly after what is done or in the queue."""
        self.joined = True
        if not parked:
            return
        self.maybe_parked = True
        own = {event.key.sequence_number for event in self.waiting}
        if following := directly_after(parked, own):
            self.waiting = deque(_in_order([*self.waiting, *following]))

    def done(self) -> TopicEvent:
        """Remove the head."""
        self.alone = False
        return self.waiting.popleft()

    def replace_head(self, event: TopicEvent) -> None:
        self.waiting[0] = event

    def clear(self) -> list[TopicEvent]:
        """Remove all."""
        left = list(self.waiting)
        self.waiting.clear()
        return left


class AggregateQueues:
    """All queues with an event to handle."""

    def __init__(self, events: Iterable[TopicEvent]) -> None:
        by_aggregate: dict[Aggregate, list[TopicEvent]] = {}
        for event in events:
            by_aggregate.setdefault(event.aggregate, []).append(event)
        self._heap: list[tuple[int, int, int, AggregateQueue]] = []
        self._put = 0
        for aggregate, own in by_aggregate.items():
            self.put(AggregateQueue(aggregate, own))

    def __bool__(self) -> bool:
        return bool(self._heap)

    @property
    def next_due(self) -> int:
        return self._heap[0][0]

    def put(self, queue: AggregateQueue) -> None:
        """Put it back, unless it is empty."""
        if queue.waiting:
            self._put += 1
            heapq.heappush(self._heap, (queue.due, queue.turn, self._put, queue))

    def take(self, *, now: int, most: int) -> list[AggregateQueue]:
        """The next queues that are due, in the order of their first events on the topic."""
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


def directly_after(parked: Sequence[WaitingEvent], own: Container[int] = ()) -> list[TopicEvent]:
    """Those of an aggregate's parked events before which nothing is missing, with the events of `own`.

    Others would only wait for an event that is not there.
    """
    following = []
    reached = parked[0].last_sequence
    for event in parked:
        while reached + 1 in own:
            reached += 1
        if event.sequence_number > reached + 1:
            break
        reached = max(reached, event.sequence_number)
        following.append(TopicEvent.of(event.message, from_parking=True))
    return following


def _in_order(events: Iterable[TopicEvent]) -> list[TopicEvent]:
    return sorted(
        events,
        key=lambda event: (event.key.sequence_number, not event.from_parking, event.message.offset),
    )
