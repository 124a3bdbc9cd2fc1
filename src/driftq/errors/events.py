"""The event store: its appends, and the segments of its log."""

from __future__ import annotations

from driftq.errors.kinds import Conflict, FailedPrecondition, NotFound, Unavailable


class SequenceConflict(Conflict):
    """The aggregate is not at the sequence that the writer expected; nothing was appended."""

    def __init__(self, aggregate_id: str, *, expected_seq: int, actual_seq: int) -> None:
        super().__init__(f"aggregate {aggregate_id!r} is at sequence {actual_seq}, not {expected_seq}")
        self.aggregate_id = aggregate_id
        self.expected_seq = expected_seq
        self.actual_seq = actual_seq

    @property
    def expected(self) -> int:
        """`expected_seq`, as Python programs call it."""
        return self.expected_seq

    @property
    def actual(self) -> int:
        """`actual_seq`, as Python programs call it."""
        return self.actual_seq


class EventIdReused(Conflict):
    """The event_id belongs to an event with other content, which stays as it is."""

    reason = "event_id_reused"

    def __init__(self, event_id: str, *, sequence_number: int) -> None:
        super().__init__(f"event_id {event_id!r} was used for other content (sequence {sequence_number})")
        self.event_id = event_id
        self.sequence_number = sequence_number


class FollowerNotFound(NotFound):
    """No group of this name follows the event log."""

    def __init__(self, group: str) -> None:
        super().__init__(f"no group {group!r} follows the event log")
        self.group = group


class FollowerReplaced(FailedPrecondition):
    """A newer follower of the group has started; this one no longer moves the group's position."""

    reason = "follower_replaced"

    def __init__(self, group: str, *, token: int) -> None:
        super().__init__(f"a newer follower of group {group!r} has replaced the one with token {token}")
        self.group = group
        self.token = token


class EventStoreUnusable(Unavailable):
    """There is no event store here, or this server cannot use it."""

    reason = "event_store_unusable"

    def __init__(self, problem: str) -> None:
        super().__init__(f"the event store cannot be used: {problem}")
        self.problem = problem


class EventDamaged(Unavailable):
    """A stored event differs from what was appended. It is never returned and never sealed."""

    reason = "event_damaged"

    def __init__(
        self,
        event_id: str,
        *,
        aggregate_type: str,
        aggregate_id: str,
        sequence_number: int,
        position: int | None,
        problem: str,
    ) -> None:
        place = "no position yet" if position is None else f"position {position}"
        super().__init__(
            f"event {event_id!r} (sequence {sequence_number} of {aggregate_type} {aggregate_id!r}, {place}) "
            f"is damaged in the event store: {problem}. Restore the database from a backup"
        )
        self.event_id = event_id
        self.aggregate_type = aggregate_type
        self.aggregate_id = aggregate_id
        self.sequence_number = sequence_number
        self.position = position
        self.problem = problem


class SegmentError(Exception):
    """A problem with the event log's segments, or with the right to write them."""


class SealerReplaced(SegmentError):
    """Another sealer holds the lease now; this one's unfinished work has no effect."""

    def __init__(self, *, owner: str, token: int) -> None:
        super().__init__(f"sealer {owner!r} with token {token} was replaced")
        self.owner = owner
        self.token = token


class SegmentDiffers(SegmentError):
    """An object has the name of a segment but holds other events."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"segment {name} exists with other content; is the folder shared by two event stores?"
        )
        self.name = name


class SegmentLost(SegmentError):
    """Sealed events cannot be read back."""

    def __init__(self, name: str, *, cause: str) -> None:
        super().__init__(f"segment {name} cannot be read: {cause}")
        self.name = name
        self.cause = cause


class SegmentsAhead(SegmentError):
    """The segments hold events that the database lacks: they come from another database."""

    def __init__(self, *, sealed: int, known: int) -> None:
        super().__init__(
            f"the segments go up to position {sealed}, the database to {known}; rebuild it first"
        )
        self.sealed = sealed
        self.known = known


class UnsealedEvents(SegmentError):
    """The database holds events that no segment has, so it must not be rebuilt."""

    def __init__(self, *, sealed: int) -> None:
        super().__init__(f"the database holds events beyond position {sealed}, where the segments end")
        self.sealed = sealed
