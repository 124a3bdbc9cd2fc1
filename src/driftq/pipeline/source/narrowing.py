"""What is left to read of topics under the limits that a query's filters set."""

from __future__ import annotations

from driftq.pipeline.source.filters import ColumnLimits
from driftq.pipeline.source.offsets import Bounds, Offsets
from driftq.pipeline.source.times import first_offset_from
from driftq.pipeline.source.topics import Topics


def narrowed(topics: Topics, start: Offsets, end: Offsets, limits: ColumnLimits) -> tuple[Offsets, Offsets]:
    """The same starts and ends without what no row of the query can come from."""
    starts: Offsets = {}
    ends: Offsets = {}
    for topic, partitions in end.items():
        for number, upto in partitions.items() if limits.allows("topic", topic) else ():
            if int(number) not in limits.of("partition"):
                continue
            left = _within(topics, topic, number, Bounds(start[topic][number], upto), limits)
            if left.first < left.end:
                starts.setdefault(topic, {})[number] = left.first
                ends.setdefault(topic, {})[number] = left.end
    return starts, ends


def _within(topics: Topics, topic: str, partition: str, whole: Bounds, limits: ColumnLimits) -> Bounds:
    """The offsets of one partition: first the limits that cost nothing, then those that need a search."""
    offsets = limits.of("offset").within(whole.first, whole.end)
    assert offsets.low is not None
    assert offsets.high is not None
    left, times_us = Bounds(offsets.low, offsets.high), limits.of("timestamp")
    if times_us.low is not None:
        first = _first_from(topics, topic, partition, left, at_us=times_us.low)
        left = Bounds(left.end if first is None else first, left.end)
    if times_us.high is not None:
        end = _first_from(topics, topic, partition, left, at_us=times_us.high)
        left = Bounds(left.first, left.end if end is None else end)
    return left


def _first_from(topics: Topics, topic: str, partition: str, within: Bounds, *, at_us: int) -> int | None:
    """Messages have milliseconds, filters microseconds."""
    return first_offset_from(topics, topic, partition, at_ms=-(-at_us // 1000), within=within)
