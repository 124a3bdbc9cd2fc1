"""The marks of redriven dead letters in a manifest: set by a redrive, and by a rebuild."""

from __future__ import annotations

import time
from collections.abc import Mapping

from driftq.sinks.dead_letters import BY_REBUILD
from driftq.sinks.manifest import ReadModelManifest, RedrivenLetter
from driftq.sinks.port import ProjectionDeadLetter, TopicPartition


def with_mark(marks: tuple[RedrivenLetter, ...], id: str, *, by: str) -> tuple[RedrivenLetter, ...]:
    others = tuple(mark for mark in marks if mark.id != id)
    return (*others, RedrivenLetter(id, _now(), by))


def rebuilt_marks(
    live: ReadModelManifest,
    before: Mapping[str, ProjectionDeadLetter],
    fresh: ReadModelManifest,
    given_up: Mapping[str, ProjectionDeadLetter],
) -> tuple[RedrivenLetter, ...]:
    """Those after a swap: the rebuild has applied what it has read and not given up again.

    Dead letters of earlier versions have no identity; what the rebuild has given up has another id.
    """
    marks = {mark.id: mark for mark in live.redriven if mark.id not in given_up}
    reached = fresh.positions
    for id, dead in before.items():
        if id not in given_up and is_behind(reached, dead):
            marks.setdefault(id, RedrivenLetter(id, _now(), BY_REBUILD))
    return tuple(marks.values())


def is_behind(reached: Mapping[TopicPartition, int], dead: ProjectionDeadLetter) -> bool:
    """Whether these positions are past the event. A dead letter of an earlier version has no identity."""
    ends = [
        end
        for place, end in reached.items()
        if place[:2] == dead[:2] and dead.identity in (place.identity, "")
    ]
    return max(ends, default=-1) >= dead.offset


def _now() -> int:
    return time.time_ns() // 1_000_000
