"""Topics, groups, messages and their deliveries."""

from __future__ import annotations

from driftq.errors.kinds import DriftQError, FailedPrecondition, NotFound, ResourceExhausted, Unavailable


class TopicNotFound(NotFound):
    def __init__(self, topic: str) -> None:
        super().__init__(f"topic {topic!r} does not exist")
        self.topic = topic


class GroupNotFound(NotFound):
    def __init__(self, topic: str, *, group: str) -> None:
        super().__init__(f"group {group!r} does not exist on topic {topic!r}")
        self.topic = topic
        self.group = group


class MessageNotFound(NotFound):
    def __init__(self, topic: str, *, offset: int) -> None:
        super().__init__(f"topic {topic!r} stores no message with offset {offset}")
        self.topic = topic
        self.offset = offset


class RunNotFound(NotFound):
    def __init__(self, run_id: str) -> None:
        super().__init__(f"there is no message of run {run_id!r}")
        self.run_id = run_id


class TopicExists(DriftQError):
    code = "ALREADY_EXISTS"
    status = 409

    def __init__(self, topic: str, *, partitions: int, asked: int) -> None:
        super().__init__(f"topic {topic!r} exists with {partitions} partitions, not {asked}")
        self.topic = topic
        self.partitions = partitions
        self.asked = asked


class NotOwner(FailedPrecondition):
    """Another owner holds the lease on the message."""

    def __init__(self) -> None:
        super().__init__("not owner")


class NoCurrentDelivery(FailedPrecondition):
    """The message was never delivered, its lease has expired, or it waits for its retry."""

    def __init__(self) -> None:
        super().__init__("no current delivery")


class StaleAttempt(FailedPrecondition):
    """The given attempt is not the current one."""

    def __init__(self, *, held: int, given: int) -> None:
        super().__init__("stale attempt")
        self.held = held
        self.given = given


class AlreadySettled(FailedPrecondition):
    def __init__(self) -> None:
        super().__init__("already settled")


class DeadLetterGroupGone(FailedPrecondition):
    """Nothing was redriven: the group that dead-lettered the messages is deleted, as are `others` more."""

    reason = "group_deleted"

    def __init__(self, topic: str, *, group: str, others: int = 0) -> None:
        gone = (
            f"group {group!r} no longer exists"
            if not others
            else f"{group!r} and {others} more groups are gone"
        )
        super().__init__(
            f"nothing was redriven: on topic {topic!r}, {gone}. "
            f"With all_groups the dead letters go to every group instead"
        )
        self.topic = topic
        self.group = group
        self.others = others


class WriterFenced(FailedPrecondition):
    """A newer run of this writer has started: the older one must stop."""

    reason = "writer_fenced"

    def __init__(self, writer: str, *, newest: int, given: int) -> None:
        super().__init__(f"writer {writer!r} is at epoch {newest}; epoch {given} is fenced")
        self.writer = writer
        self.newest = newest
        self.given = given


class LaneBehind(FailedPrecondition):
    """The topic holds fewer of the writer's messages than were confirmed: it was deleted or restored."""

    reason = "lane_behind"

    def __init__(self, writer: str, *, lane: int, position: int, after: int) -> None:
        super().__init__(f"lane {lane} of writer {writer!r} is at {position}, before {after}")
        self.writer = writer
        self.lane = lane
        self.position = position
        self.after = after


class Overloaded(ResourceExhausted):
    """The partition has reached its limit of unsettled messages."""

    reason = "overloaded"

    def __init__(self, topic: str, *, partition: int, limit: str, retry_after_ms: int = 1000) -> None:
        super().__init__(f"partition {partition} of topic {topic!r} is full ({limit})")
        self.topic = topic
        self.partition = partition
        self.limit = limit
        self.retry_after_ms = retry_after_ms


class ShuttingDown(Unavailable):
    reason = "shutting_down"

    def __init__(self) -> None:
        super().__init__("the server is shutting down")
