"""Going from one segment to the next, with the power cut at every step of it."""

from random import Random

import pytest

from driftq.testing.disk import PowerCut, SimFolder
from tests.unit.log.history import commit, commit_all, laid_out, opened, recovered

BEFORE = [b"a" * 400, b"b" * 400]
NEXT = b"c" * 400


def until(disk: SimFolder, steps: int) -> bool:
    """Roll with power for so many steps; whether that was enough to confirm the frame."""
    log = opened(disk)
    commit_all(log, BEFORE)
    disk.cut_power_after(steps)
    try:
        frame = commit(log, NEXT)
    except PowerCut:
        return False
    assert frame.segment == 2
    return True


@pytest.mark.clause("W1", "W4")
def test_a_power_cut_at_any_step_of_a_roll_leaves_a_log_that_goes_on() -> None:
    steps = 0
    done = False
    while not done:
        for seed in range(40):
            disk = SimFolder(Random(seed))
            done = until(disk, steps)
            after = disk.crash()
            found = recovered(after)[0]
            assert found in ([*BEFORE, NEXT], BEFORE) if not done else found == [*BEFORE, NEXT]
            log = opened(after)
            commit(log, b"later" * 100)
            assert recovered(after.crash())[0] == [*found, b"later" * 100]
        steps += 1
    assert steps > 8


def test_a_new_segment_is_on_disk_before_a_frame_is_written_to_it(disk: SimFolder) -> None:
    log = opened(disk)
    commit_all(log, BEFORE)
    disk.fail_next("write")  # The header of the new segment …
    with pytest.raises(OSError, match="error"):
        log.write(laid_out(log, NEXT))
    log.cut_back()
    log.write(laid_out(log, NEXT))  # … and now a frame behind it, which is not synced.
    header = disk.open("00000000000000000002.log").read_at(0, 64)
    for _ in range(40):
        assert disk.crash().open("00000000000000000002.log").read_at(0, 64) == header


@pytest.mark.clause("W5")
def test_one_sync_covers_all_frames_written_before_it_across_segments(disk: SimFolder) -> None:
    log = opened(disk)
    payloads = [bytes([97 + number]) * 400 for number in range(7)]
    for payload in payloads:
        log.write(laid_out(log, payload))
    assert len(log.segments) > 2
    log.sync()
    for _ in range(40):
        assert recovered(disk.crash())[0] == payloads
