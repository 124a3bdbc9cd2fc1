"""Weeks of produce and ack at a constant backlog: disk, snapshot and restart follow what is kept."""

from __future__ import annotations

import pytest

from driftq.housekeeping.round import RoundOptions, run_round
from driftq.log.manifest import remove_leftovers
from driftq.log.memory import MemoryFolder
from driftq.model.options.limits import Limits
from tests.support.story import Story

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
BACKLOG = 40
AN_HOUR = 20


class Weeks:
    """A server's life in fast motion: hours of work, a round and a restart each day."""

    def __init__(self, *, stuck: bool) -> None:
        self.folder = MemoryFolder()
        limits = Limits(retention_ms=DAY_MS, idempotency_ttl_ms=600_000)
        self.story = Story(self.folder, limits=limits, segment_bytes=32_768, segment_records=2_000)
        self.story.topic("busy", 2)
        self.story.group("busy", "workers")
        self.stuck = stuck
        if stuck:
            self.story.topic("stuck")
            self.story.group("stuck", "nobody")
        self.days: list[tuple[int, int, int, int]] = []
        """Bytes of the folder, bytes kept, bytes of the snapshot, frames folded at a restart."""

    def day(self, number: int) -> None:
        story = self.story
        for _ in range(24):
            story.now += HOUR_MS
            story.produce("busy", *("x" * 250 for _ in range(AN_HOUR // 2)), key="user:1")
            story.produce("busy", *("y" * 250 for _ in range(AN_HOUR // 2)), key="user:2")
            story.deliver("busy", "workers", AN_HOUR, lease_ms=12 * HOUR_MS)
            self._ack_all_but_the_newest()
        if self.stuck:
            story.produce("stuck", f"day {number}")
        story.trim()
        if story.log.sealed:
            options = RoundOptions(small_bytes=8_192)
            manifest = run_round(self.folder, limits=story.limits, upto=story.log.sealed, options=options)
            remove_leftovers(self.folder, manifest)  # As a server does when it has adopted the manifest.
        self.story = story.reopened()
        self._measure()

    def _ack_all_but_the_newest(self) -> None:
        story = self.story
        for number, progress in enumerate(story.state.topics["busy"].groups["workers"].partitions):
            held = sorted(progress.leases.leased)[: -BACKLOG // 2]
            if held:
                story.ack("busy", "workers", *map(progress.index.offset_at, held), partition=number)

    def _measure(self) -> None:
        names = self.folder.names()
        snapshots = [name for name in names if name.endswith(".snapshot")]
        kept = sum(
            part.index.total_bytes - part.index.bytes_before + 40 * (part.index.end - part.index.first)
            for topic in self.story.state.topics.values()
            for part in topic.partitions
        )
        used = sum(self.folder.open(name).size() for name in names)
        snapshot = max((self.folder.open(name).size() for name in snapshots), default=0)
        self.days.append((used, kept, snapshot, self.story.recovery.frames))


@pytest.mark.clause("W6", "T7")
@pytest.mark.parametrize("stuck", [False, True], ids=["all settled", "one topic stuck"])
def test_weeks_of_work_leave_no_more_than_what_is_kept(*, stuck: bool) -> None:
    weeks = Weeks(stuck=stuck)
    for number in range(28):
        weeks.day(number)
    settled = weeks.days[4:]
    for used, kept, _, _ in settled:
        assert used < 3 * kept, f"{used} bytes for {kept}"
    for column in (2, 3):
        early, late = [max(day[column] for day in part) for part in (settled[:8], settled[-8:])]
        assert late <= early * 1.3, f"{early} grew to {late}"
    if stuck:
        assert weeks.story.values("stuck") == [f"day {number}" for number in range(28)]
