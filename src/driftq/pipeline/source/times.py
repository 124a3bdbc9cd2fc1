"""From times to offsets: the first message of a partition that was produced at a time or later.

Messages of a partition are in the order of their times, so a search in halves finds it, with one small
request for each half.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from driftq.errors import InvalidArgument
from driftq.model.time import rfc3339
from driftq.pipeline.source.offsets import Bounds, Offsets, Times, require_subscribed
from driftq.pipeline.source.topics import Topics


def first_offset_from(
    topics: Topics, topic: str, partition: str, *, at_ms: int, within: Bounds
) -> int | None:
    """The offset of the first message produced at `at_ms` or later; None when there is none `within`."""
    low, high, found = within.first, within.end, None
    while low < high:
        middle = (low + high) // 2
        message = topics.message_from(topic, int(partition), start=middle, end=high)
        if message is not None and message.produced_ms < at_ms:
            low = message.offset + 1
        else:
            found = found if message is None else message.offset
            high = middle
    return found


def starting_at(
    topics: Topics,
    times: Times,
    bounds: Mapping[str, Mapping[str, Bounds]],
    *,
    unmatched: Literal["error", "latest"],
) -> Offsets:
    """Where to start in each partition; one that is not named is read from its first message.

    Raises InvalidArgument when a partition has no message from its time on, unless it may start at its end.
    """
    require_subscribed(times.named, bounds, option=times.option)
    starts: Offsets = {topic: {} for topic in bounds}
    for topic, number, bound in _each(bounds):
        at_ms = times.of(topic, number)
        if at_ms is None:
            starts[topic][number] = bound.first
            continue
        found = first_offset_from(topics, topic, number, at_ms=at_ms, within=bound)
        if found is None and unmatched == "error":
            raise InvalidArgument(
                times.option,
                f"partition {number} of topic {topic!r} has no message from {rfc3339(at_ms)} on; "
                'to start at its end, set option("startingOffsetsByTimestampStrategy", "latest")',
            )
        starts[topic][number] = bound.end if found is None else found
    return starts


def ending_at(topics: Topics, times: Times, bounds: Mapping[str, Mapping[str, Bounds]]) -> Offsets:
    """Where to end in each partition: before its first message of that time or later, else at its end."""
    require_subscribed(times.named, bounds, option=times.option)
    ends: Offsets = {topic: {} for topic in bounds}
    for topic, number, bound in _each(bounds):
        at_ms = times.of(topic, number)
        found = None if at_ms is None else first_offset_from(topics, topic, number, at_ms=at_ms, within=bound)
        ends[topic][number] = bound.end if found is None else found
    return ends


def _each(bounds: Mapping[str, Mapping[str, Bounds]]) -> list[tuple[str, str, Bounds]]:
    return [
        (topic, number, bound) for topic, partitions in bounds.items() for number, bound in partitions.items()
    ]
