"""However the power goes, what was confirmed is there, and at most the one frame under way besides it."""

from collections.abc import Sequence
from contextlib import suppress
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftq.errors import LogCorrupt
from driftq.log import Log
from driftq.testing.disk import PowerCut, SimFolder
from tests.unit.log.history import commit, folded, laid_out, opened, recovered

Sizes = st.lists(st.one_of(st.integers(1, 300), st.integers(300, 3000)), min_size=1, max_size=12)
SegmentBytes = st.sampled_from([700, 2048, 5000])


class Life:
    """One process that commits until the power goes."""

    def __init__(self, disk: SimFolder, known: list[bytes], *, segment_bytes: int) -> None:
        self.disk = disk
        self.confirmed = known
        self.under_way: list[bytes] = []
        self.segment_bytes = segment_bytes

    def run(self, sizes: list[int], *, seed: int) -> None:
        log = Log.open(self.disk, segment_bytes=self.segment_bytes)
        found, _ = folded(log)
        assert found == self.confirmed
        random = Random(seed)
        for size in sizes:
            payload = random.randbytes(size)
            self.under_way = [payload]
            commit(log, payload)
            self.confirmed = [*self.confirmed, payload]
            self.under_way = []


@pytest.mark.clause("W1", "W4")
@settings(max_examples=300, deadline=None)
@given(
    lives=st.lists(st.tuples(Sizes, st.integers(0, 60)), min_size=1, max_size=4),
    segment_bytes=SegmentBytes,
    seed=st.integers(0, 2**32),
)
def test_a_power_cut_at_any_step_takes_nothing_that_was_confirmed(
    lives: list[tuple[list[int], int]], segment_bytes: int, seed: int
) -> None:
    disk = SimFolder(Random(seed))
    known: list[bytes] = []
    for number, (sizes, steps) in enumerate(lives):
        life = Life(disk, known, segment_bytes=segment_bytes)
        disk.cut_power_after(steps)  # Often in the middle of recovery itself.
        with suppress(PowerCut):
            life.run(sizes, seed=seed + number)
        disk = disk.crash()
        found, _ = recovered(disk, segment_bytes=segment_bytes)
        assert found in (life.confirmed, life.confirmed + life.under_way)
        assert recovered(disk.crash(), segment_bytes=segment_bytes)[0] == found
        known = found
        disk.close()


@pytest.mark.clause("W4")
@settings(max_examples=300, deadline=None)
@given(sizes=Sizes, steps=st.integers(0, 60), segment_bytes=SegmentBytes, seed=st.integers(0, 2**32))
def test_a_kill_at_any_step_takes_nothing_that_was_written(
    sizes: list[int], steps: int, segment_bytes: int, seed: int
) -> None:
    """No sync at all, as with fsync=off: the kernel keeps what was written."""
    disk = SimFolder(Random(seed))
    log = opened(disk, segment_bytes=segment_bytes)
    disk.cut_power_after(steps)
    written: list[bytes] = []
    with suppress(PowerCut):
        for size in sizes:
            payload = Random(seed + size).randbytes(size)
            log.write(laid_out(log, payload))
            log.confirm()
            written.append(payload)
    found, recovery = recovered(disk.process_kill(), segment_bytes=segment_bytes)
    assert found == written
    assert recovery.cut is None or recovery.cut.position == 0


def commit_of_several(disk: SimFolder, payloads: Sequence[bytes], *, steps: int, cut: bool) -> list[bytes]:
    """Two commits, the power cut in the second; what the restart finds."""
    log = opened(disk, segment_bytes=8192)
    commit(log, b"before")
    if cut:
        disk.cut_power_after(steps)
    with suppress(PowerCut):
        for frame in [laid_out(log, payload) for payload in payloads]:
            log.write_durably(frame)
        log.confirm()
    return recovered(disk.crash(), segment_bytes=8192)[0]


@pytest.mark.clause("W4", "W5")
@settings(max_examples=300, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 1500), min_size=2, max_size=4),
    steps=st.integers(0, 8),
    seed=st.integers(0, 2**32),
)
def test_of_a_commit_of_several_frames_a_power_cut_leaves_the_first_ones(
    sizes: list[int], steps: int, seed: int
) -> None:
    payloads = [Random(seed + number).randbytes(size) for number, size in enumerate(sizes)]
    found = commit_of_several(SimFolder(Random(seed)), payloads, steps=steps, cut=True)
    assert found == [b"before", *payloads][: len(found)]
    assert len(found) > min(steps // 2, len(sizes))
    assert commit_of_several(SimFolder(Random(seed)), payloads, steps=0, cut=False) == [b"before", *payloads]


@pytest.mark.clause("W4", "W5")
def test_two_frames_under_one_sync_can_look_like_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Why each frame is synced before the next is written: this is what the tests above would find."""
    monkeypatch.setattr(Log, "write_durably", Log.write)
    payloads = [b"a" * 600, b"b" * 600]
    corrupt = 0
    for seed in range(100):
        with suppress(LogCorrupt):
            commit_of_several(SimFolder(Random(seed)), payloads, steps=2, cut=True)
            continue
        corrupt += 1
    assert corrupt
