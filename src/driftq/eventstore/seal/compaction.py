"""Compaction: many small segments become few large ones, under names derived from their positions.

    plan     segments side by side that make a full one together; the newest two are left to the sealer
    join     the large one is created; from then on it counts and those within it do not
    remove   those within a large one go once it has been there for a while, in a later run

A listing of the segments shows each position once, before, between and after these steps. A killed run leaves
nothing that counts twice, and the next one plans the same names. Readers of a small segment have a grace
period; after it they find its events in the large one.
"""

from __future__ import annotations

from collections.abc import Mapping

from driftq.eventstore.objects import JoinableObjects
from driftq.eventstore.seal.segment import join_segments, read_segment
from driftq.eventstore.stored import SegmentRange

EVENTS_MAX = 200_000
BYTES_MAX = 32 * 1024 * 1024
"""Of the files together, so that a task can hold their contents in memory."""
GRACE_S = 600.0
_LEFT_TO_THE_SEALER = 2


def plan_joins(
    sizes: Mapping[SegmentRange, int], *, events_max: int = EVENTS_MAX, bytes_max: int = BYTES_MAX
) -> list[list[SegmentRange]]:
    """The groups to join. Only full ones, so that later segments never change earlier groups."""
    groups: list[list[SegmentRange]] = []
    group: list[SegmentRange] = []
    for segment in list(sizes)[:-_LEFT_TO_THE_SEALER]:
        if group and not _fits(group, segment, sizes, events_max=events_max, bytes_max=bytes_max):
            groups.append(group)
            group = []
        group.append(segment)
    return [full for full in groups if len(full) > 1]


def _fits(
    group: list[SegmentRange],
    segment: SegmentRange,
    sizes: Mapping[SegmentRange, int],
    *,
    events_max: int,
    bytes_max: int,
) -> bool:
    small = segment.last - group[0].first < events_max
    return small and sizes[segment] + sum(sizes[each] for each in group) <= bytes_max


def join(objects: JoinableObjects, group: list[SegmentRange]) -> SegmentRange:
    """Create the segment of these. Raises SegmentLost, and nothing has changed, when one cannot be read."""
    joined = SegmentRange(group[0].first, group[-1].last)
    tables = [read_segment(objects.read(segment.name), name=segment.name) for segment in group]
    objects.create(joined.name, join_segments(tables))
    return joined


def remove_covered(objects: JoinableObjects, *, now: float, grace_s: float = GRACE_S) -> list[SegmentRange]:
    """Remove segments within one that is old enough; returns the removed ones."""
    removed: list[SegmentRange] = []
    covered = objects.covered()
    if not covered:
        return removed
    for larger in objects.segments():
        within = [
            segment for segment in covered if larger.first <= segment.first and segment.last <= larger.last
        ]
        if within and now - objects.written_at(larger.name) >= grace_s:
            for segment in within:
                objects.delete(segment.name)
            removed += within
    return removed
