"""The next segment's space is taken and filled with zeros ahead of time, and no zero reaches a segment."""

import errno
import os
from pathlib import Path
from random import Random
from threading import Event, Thread

import pytest

from driftq.log import Log
from driftq.log.disk import OsFile, OsFolder
from driftq.log.handles import SPARE, OpenSegments
from driftq.log.memory import MemoryFolder
from driftq.testing.disk import PowerCut, SimFolder
from tests.unit.log.history import commit, commit_all, folded, laid_out, opened, recovered

SEGMENT_BYTES = 8192
STEP = 1000


def with_spare(disk: SimFolder) -> Log:
    """A log with one confirmed frame and an unfilled spare."""
    log = opened(disk, segment_bytes=SEGMENT_BYTES)
    log.files.fill_bytes = STEP
    commit(log, b"a" * 5000)
    log.prepare()
    return log


def filled(log: Log) -> int:
    steps = 0
    while log.fill_spare():
        steps += 1
    return steps


def test_the_zeros_come_in_steps_and_once(disk: SimFolder) -> None:
    log = with_spare(disk)
    before = disk.steps
    assert filled(log) == -(-SEGMENT_BYTES // STEP)
    assert disk.steps > before
    assert filled(log) == 0
    commit(log, b"b" * 5000)
    assert log.segments == [1, 2]
    assert filled(log) == 0  # There is no spare.
    log.prepare()
    assert filled(log) > 0


def test_as_many_zeros_as_segments_hold_lately(disk: SimFolder) -> None:
    mib = 1 << 20
    log = opened(disk, segment_bytes=64 * mib)
    log.files.fill_bytes = mib
    commit(log, b"a")
    log.prepare()
    assert filled(log) <= 2
    commit(log, bytes(8 * mib))
    assert 8 <= filled(log) <= 12
    log.roll()
    commit(log, b"b")
    log.prepare()
    assert 8 <= filled(log) <= 12  # The new segment is empty, the one before it counts.
    log.roll()
    commit(log, b"c")
    log.prepare()
    assert filled(log) <= 2


@pytest.mark.clause("W4")
def test_a_segment_takes_the_spare_between_two_steps(disk: SimFolder) -> None:
    log = with_spare(disk)
    assert log.fill_spare()
    commit(log, b"b" * 5000)
    assert not log.fill_spare()
    assert folded(log)[0] == [b"a" * 5000, b"b" * 5000]
    assert SPARE not in disk.names()


@pytest.mark.clause("W4")
def test_a_segment_waits_for_the_zeros_under_way(disk: SimFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    log = with_spare(disk)
    begun, released, rolled = Event(), Event(), Event()
    spare = disk.open(SPARE)
    fill = spare.fill

    def held(position: int, size: int) -> None:
        begun.set()
        released.wait()
        assert not rolled.is_set()
        fill(position, size)

    def roll() -> None:
        commit(log, b"b" * 5000)
        rolled.set()

    monkeypatch.setattr(spare, "fill", held)
    filler, writer = Thread(target=log.fill_spare), Thread(target=roll)
    filler.start()
    begun.wait()
    writer.start()
    assert not rolled.wait(0.05)
    released.set()
    filler.join()
    writer.join()
    assert folded(log)[0] == [b"a" * 5000, b"b" * 5000]


@pytest.mark.clause("P1", "W4")
@pytest.mark.parametrize("operation", ["write", "sync"])
def test_zeros_that_could_not_be_written_harm_nothing(disk: SimFolder, operation: str) -> None:
    log = with_spare(disk)
    assert log.fill_spare()
    disk.fail_next(operation)  # type: ignore[arg-type]
    with pytest.raises(OSError, match="error"):
        log.fill_spare()
    assert not log.fill_spare()  # Not tried a second time.
    commit_all(log, [b"b" * 5000, b"c" * 100])
    for _ in range(20):
        found = recovered(disk.crash(), segment_bytes=SEGMENT_BYTES)[0]
        assert found == [b"a" * 5000, b"b" * 5000, b"c" * 100]


@pytest.mark.clause("W1", "W4")
@pytest.mark.parametrize("steps", range(12))
def test_a_power_cut_while_a_segment_is_filled_or_begun_takes_nothing(steps: int) -> None:
    for seed in range(30):
        disk = SimFolder(Random(seed))
        log = with_spare(disk)
        disk.cut_power_after(steps)
        confirmed = [b"a" * 5000]
        try:
            log.fill_spare()
            log.fill_spare()
            log.write_durably(laid_out(log, b"b" * 5000))
            log.confirm()
            confirmed.append(b"b" * 5000)
        except PowerCut:
            pass
        after = disk.crash()
        found, _ = recovered(after, segment_bytes=SEGMENT_BYTES)
        assert found[: len(confirmed)] == confirmed
        log = opened(after, segment_bytes=SEGMENT_BYTES)
        log.prepare()  # Another spare in place of the one that the crash left.
        filled(log)
        commit_all(log, [b"c" * 5000, b"d" * 5000])
        assert recovered(after.crash(), segment_bytes=SEGMENT_BYTES)[0] == [*found, b"c" * 5000, b"d" * 5000]


@pytest.mark.clause("W4")
def test_zeros_behind_a_torn_frame_are_no_frame(disk: SimFolder) -> None:
    log = with_spare(disk)
    filled(log)
    commit(log, b"b" * 5000)
    disk.cut_power_after(1)
    with pytest.raises(PowerCut):
        log.write_durably(laid_out(log, b"c" * 1500))
    cuts = 0
    for _ in range(40):
        found, recovery = recovered(disk.crash(), segment_bytes=SEGMENT_BYTES)
        assert found[:2] == [b"a" * 5000, b"b" * 5000]
        cuts += recovery.cut is not None
    assert cuts


@pytest.mark.clause("T7")
def test_a_disk_without_space_shows_at_the_roll_and_not_later(disk: SimFolder) -> None:
    log = opened(disk, segment_bytes=SEGMENT_BYTES)
    commit(log, b"a" * 5000)
    disk.fail_next("allocate", error=errno.ENOSPC)
    with pytest.raises(OSError, match="space"):
        log.prepare()
    assert not log.fill_spare()
    disk.fail_next("allocate", error=errno.ENOSPC)
    with pytest.raises(OSError, match="space"):
        log.write_durably(laid_out(log, b"b" * 5000))
    log.cut_back()
    commit(log, b"c" * 100)
    assert folded(log)[0] == [b"a" * 5000, b"c" * 100]


def test_zeros_are_written_where_writes_stay_in_place_and_take_no_memory(tmp_path: Path) -> None:
    for in_place in (True, False):
        path = tmp_path / str(in_place)
        file = OsFile(os.open(path, os.O_RDWR | os.O_CREAT), writes_through=in_place)
        file.allocate(100_000)
        file.write_at(0, [b"abc"])
        file.fill(3, 50_000)
        assert (file.read_at(0, 5), file.size()) == (b"abc\0\0", 100_000)
    log = opened(MemoryFolder(), segment_bytes=SEGMENT_BYTES)
    log.prepare()
    filled(log)
    assert log.folder.open(SPARE).size() == 0


def test_real_segments_are_filled_and_read(tmp_path: Path) -> None:
    log = opened(OsFolder(tmp_path), segment_bytes=SEGMENT_BYTES)
    log.prepare()
    filled(log)
    commit_all(log, [b"a" * 5000, b"b" * 5000])
    log.close()
    assert recovered(OsFolder(tmp_path), segment_bytes=SEGMENT_BYTES)[0] == [b"a" * 5000, b"b" * 5000]


def test_nothing_is_filled_before_there_is_a_spare(tmp_path: Path) -> None:
    assert not OpenSegments(OsFolder(tmp_path)).fill_spare(1000)
