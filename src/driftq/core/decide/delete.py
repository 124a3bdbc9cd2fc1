"""Deleting topics and groups, and resetting groups."""

from __future__ import annotations

from driftq.core.group import Group
from driftq.core.records import GroupDeleted, GroupReset, TopicDeleted
from driftq.core.state import Topic
from driftq.errors import GroupNotFound

EARLIEST = "earliest"
LATEST = "latest"

ResetTo = str | int | tuple[int]
"""`earliest`, `latest`, an offset, or a time in milliseconds as a tuple of one."""


def decide_delete_topic(topic: Topic, *, now: int) -> TopicDeleted:
    return TopicDeleted(at=now, topic=topic.id)


def _require(topic: Topic, group: str) -> Group:
    found = topic.groups.get(group)
    if found is None:
        raise GroupNotFound(topic.name, group=group)
    return found


def decide_reset(topic: Topic, group: str, *, to: ResetTo, now: int) -> GroupReset:
    """The group drops all its progress and goes on from there; its leases end.

    Its attempt numbers go on, so that an earlier delivery can never pass for a later one.
    """
    found = _require(topic, group)
    starts: list[int] = []
    for part in topic.partitions:
        index = part.index
        match to:
            case int():
                start = index.first_ordinal_from(to)
            case (at,):
                start = max(index.first, part.ages.first_after(at - 1))
            case "latest":
                start = index.end
            case _:
                start = index.first
        starts.append(min(start, index.end))
    attempts = [progress.highest_attempt for progress in found.partitions]
    return GroupReset(at=now, group=found.id, starts=starts, attempts=attempts)


def decide_delete_group(topic: Topic, group: str, *, now: int) -> GroupDeleted:
    return GroupDeleted(at=now, group=_require(topic, group).id)
