"""Requests to the event store, and its answers."""

import msgspec

from driftq.errors import DriftQError
from driftq.eventstore.stored import StoredEvent
from driftq.model import Event


class Append(msgspec.Struct, frozen=True):
    """Append this event, if the aggregate is at `expected_seq`."""

    event: Event
    expected_seq: int | None = None


class Appended(msgspec.Struct, frozen=True, gc=False):
    """The event is stored under this number: now, or before when it is a duplicate."""

    event_id: str
    sequence_number: int
    duplicate: bool = False
    payload_mismatch: bool = False


class Refused(msgspec.Struct, frozen=True):
    """The event is not stored, because of itself or of another event of its aggregate in the same list."""

    event_id: str
    error: DriftQError


class AggregatePage(msgspec.Struct, frozen=True):
    """Events of one aggregate in sequence order; `next_seq` is where to continue, None at the end."""

    events: list[Event]
    next_seq: int | None


class LogPage(msgspec.Struct, frozen=True):
    """Events in log order; `next_position` is where to continue, now or when more events have positions.

    With a filter it may be far behind the last event, or there may be none: what lies between was not wanted.
    """

    events: list[Event]
    next_position: int


class EventFilter(msgspec.Struct, frozen=True):
    """Which events of the log a reader wants; None for any."""

    aggregate_type: str | None = None
    event_type: str | None = None
    types: tuple[str, ...] | None = None
    """The aggregate types that the reader may see; None for all."""


ALL_EVENTS = EventFilter()


class StoredPage(msgspec.Struct, frozen=True):
    """As LogPage, with the events in their stored form."""

    events: list[StoredEvent]
    next_position: int


class TimeMark(msgspec.Struct, frozen=True):
    """The last event of a page by time; events of one instant are in log order."""

    occurred_at_us: int
    position: int


class TimePage(msgspec.Struct, frozen=True):
    """Events in order of `occurred_at`; `after` is where to continue, None at the end."""

    events: list[Event]
    after: TimeMark | None
