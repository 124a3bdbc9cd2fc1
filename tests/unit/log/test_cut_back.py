"""After a failed write or sync the log is cut back to what was confirmed, or stops (P1)."""

import errno
from collections.abc import Callable
from random import Random

import pytest

from driftq.errors import LogError
from driftq.log import Log
from driftq.log.memory import MemoryFolder
from driftq.testing.disk import Operation, SimFolder
from tests.unit.log.history import SMALL, commit, commit_all, folded, laid_out, opened, recovered


def failing(log: Log, payload: bytes, *, in_one: bool = False) -> None:
    """One commit that is expected to fail."""
    frame = laid_out(log, payload)
    with pytest.raises(OSError, match=r"error|space"):
        if in_one:
            log.write_durably(frame)
        else:
            log.write(frame)
            log.sync()


@pytest.mark.clause("P1")
@pytest.mark.parametrize("in_one", [False, True])
@pytest.mark.parametrize("operation", ["write", "sync"])
@pytest.mark.parametrize("seed", range(10))
def test_a_failed_commit_leaves_no_trace(operation: Operation, seed: int, in_one: bool) -> None:
    disk = SimFolder(Random(seed))
    log = opened(disk, segment_bytes=8192)
    commit(log, b"kept")
    disk.fail_next(operation)
    failing(log, b"lost" * 400, in_one=in_one)
    log.cut_back()
    assert recovered(disk.process_kill(), segment_bytes=8192)[0] == [b"kept"]
    assert recovered(disk.crash(), segment_bytes=8192)[0] == [b"kept"]
    again = commit(log, b"next")
    assert again.lsn == 2
    assert recovered(disk.crash(), segment_bytes=8192)[0] == [b"kept", b"next"]


@pytest.mark.clause("P1")
@pytest.mark.parametrize("operation", ["truncate", "sync", "create", "allocate", "write"])
def test_a_failed_roll_goes_back_to_the_segment_before(disk: SimFolder, operation: Operation) -> None:
    log = opened(disk)
    commit(log, b"a" * 600)
    disk.fail_next(operation)
    failing(log, b"b" * 600)
    log.cut_back()
    assert (log.segments, len(disk.names()), log.last_lsn) == ([1], 1, 1)
    small = commit(log, b"c")
    assert (small.segment, small.lsn) == (1, 2)
    commit(log, b"d" * 600)
    assert log.segments == [1, 2]
    assert recovered(disk.crash())[0] == [b"a" * 600, b"c", b"d" * 600]


@pytest.mark.clause("P1")
def test_frames_laid_out_behind_the_failed_one_are_forgotten_too(disk: SimFolder) -> None:
    log = opened(disk)
    commit(log, b"kept")
    ahead = [laid_out(log, b"lost" * 100) for _ in range(4)]
    still_open = log.begin(10)
    log.write(ahead[0])
    disk.fail_next("write")
    with pytest.raises(OSError, match="error"):
        log.write(ahead[1])
    log.cut_back()
    for frame in ahead[1:]:
        with pytest.raises(ValueError, match="not the next"):
            log.write(frame)
    with pytest.raises(ValueError, match="not the open one"):
        log.finish(still_open)
    commit(log, b"next")
    assert folded(log)[0] == [b"kept", b"next"]


@pytest.mark.clause("P1")
@pytest.mark.parametrize("in_one", [False, True])
@pytest.mark.parametrize("operation", ["write", "sync"])
def test_nothing_is_written_between_a_failure_and_the_cut(
    disk: SimFolder, operation: Operation, in_one: bool
) -> None:
    log = opened(disk)
    commit(log, b"kept")
    disk.fail_next(operation)
    lost = laid_out(log, b"lost")
    after = laid_out(log, b"after")
    with pytest.raises(OSError, match="error"):
        if in_one:
            log.write_durably(lost)
        else:
            log.write(lost)
            log.sync()
    following = lost if operation == "write" or in_one else after
    refused: list[Callable[[], object]] = [
        lambda: log.write(following),
        lambda: log.write_durably(following),
        log.sync,
        log.confirm,
        lambda: folded(log),
    ]
    for step in refused:
        with pytest.raises(LogError, match="not been cut back"):
            step()
    log.cut_back()
    assert folded(log)[0] == [b"kept"]


@pytest.mark.clause("P1")
def test_a_log_that_cannot_be_cut_back_stops_writing_and_says_why(disk: SimFolder) -> None:
    log = opened(disk)
    commit(log, b"kept")
    disk.fail_next("write")
    failing(log, b"lost")
    disk.fail_next("truncate")
    with pytest.raises(OSError, match="error"):
        log.cut_back()
    assert log.broken is not None
    assert "cut back to frame 1" in log.broken
    with pytest.raises(OSError, match="cut back"):
        log.cut_back()
    with pytest.raises(LogError, match="cut back"):
        log.sync()
    assert log.read(1, 88, 4) == b"kept"


@pytest.mark.clause("P1")
def test_confirmed_frames_that_a_failed_sync_may_have_lost_stop_the_log(disk: SimFolder) -> None:
    """As with fsync=interval: answered after the write, and only then the sync fails."""
    log = opened(disk)
    log.write(laid_out(log, b"answered"))
    log.confirm()
    disk.fail_next("sync")
    with pytest.raises(OSError, match="error"):
        log.sync()
    with pytest.raises(OSError, match="frames 1 to 1"):
        log.cut_back()
    assert log.broken is not None


@pytest.mark.clause("P1")
def test_confirmed_frames_without_a_sync_survive_a_failed_write(disk: SimFolder) -> None:
    log = opened(disk)
    log.write(laid_out(log, b"answered"))
    log.confirm()
    disk.fail_next("write", after_bytes=10)
    failing(log, b"lost")
    log.cut_back()
    commit(log, b"next")
    assert recovered(disk.process_kill())[0] == [b"answered", b"next"]


@pytest.mark.clause("P1")
def test_a_full_disk_at_the_roll_is_no_reason_to_stop(disk: SimFolder) -> None:
    log = opened(disk)
    commit(log, b"a" * 600)
    for _ in range(2):
        disk.fail_next("allocate", error=errno.ENOSPC)  # The new segment, and then the old one's rest.
    failing(log, b"b" * 600)
    log.cut_back()
    assert log.broken is None
    commit_all(log, [b"c", b"d" * 600])
    assert recovered(disk.crash())[0] == [b"a" * 600, b"c", b"d" * 600]


@pytest.mark.clause("P1")
def test_the_very_first_commit_may_fail(disk: SimFolder) -> None:
    log = opened(disk)
    disk.fail_next("sync")
    failing(log, b"lost")
    log.cut_back()
    assert (disk.names(), log.segments) == ([], [])
    commit(log, b"first")
    assert recovered(disk.crash())[0] == [b"first"]


@pytest.mark.clause("W1", "P1")
def test_several_segments_can_be_taken_back_at_once() -> None:
    log = opened(MemoryFolder(), segment_bytes=SMALL)
    commit(log, b"kept")
    for _ in range(6):
        log.write(laid_out(log, b"x" * 600))
    assert len(log.segments) == 6
    log.cut_back()
    assert log.segments == [1]
    assert folded(log)[0] == [b"kept"]


@pytest.mark.clause("P1")
def test_a_frame_behind_one_that_waits_for_a_sync_takes_it_along(disk: SimFolder) -> None:
    """A write that syncs itself would leave the frame before it where it is: a hole in front of a frame."""
    log = opened(disk)
    log.write(laid_out(log, b"a" * 600))
    log.write_durably(laid_out(log, b"b" * 100))
    log.confirm()
    for _ in range(60):
        assert recovered(disk.crash())[0] == [b"a" * 600, b"b" * 100]
