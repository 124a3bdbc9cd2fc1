"""A message of a topic as a worker handles it."""

from __future__ import annotations

import msgspec

from driftq.errors import InvalidArgument
from driftq.eventstore.published import PublishedEvent, decode_published
from driftq.model import Aggregate
from driftq.registry import EventKey
from driftq.registry.dead_letters import UNFIT
from driftq.registry.parking import ParkedEvent


class TopicEvent(msgspec.Struct, frozen=True):
    """A message that a worker handles."""

    message: ParkedEvent
    key: EventKey
    event: PublishedEvent | None
    problem: str = ""
    """Why it is not an event."""
    from_parking: bool = False

    @property
    def aggregate(self) -> Aggregate:
        return Aggregate(self.key.aggregate_type, self.key.aggregate_id)

    @classmethod
    def of(cls, message: ParkedEvent, *, from_parking: bool = False) -> TopicEvent:
        """The event in a message; one without an event is identified by its offset on the topic."""
        try:
            event = decode_published(message.value)
        except InvalidArgument as wrong:
            return cls.unfit(message, str(wrong), from_parking=from_parking)
        key = EventKey(event.event_id, event.aggregate_type, event.aggregate_id, event.sequence_number)
        return cls(message, key, event, "", from_parking)

    @classmethod
    def unfit(cls, message: ParkedEvent, problem: str, *, from_parking: bool = False) -> TopicEvent:
        """A message that cannot be claimed under its own id: its place on its topic is its id."""
        place = [message.identity, message.topic, str(message.partition), str(message.offset)]
        event_id = f"{UNFIT}:{'/'.join(filter(None, place))}"
        return cls(message, EventKey(event_id, UNFIT, event_id, 1), None, problem, from_parking)
