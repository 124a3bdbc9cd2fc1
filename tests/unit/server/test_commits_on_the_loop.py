"""The loop writes commits while the disk is quick, and never beside the writer thread."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event

import pytest

from driftq.log import Frame, Log
from driftq.log.memory import MemoryFolder
from driftq.server.io_threads import AWAY_S, BYTES_MAX, QUICK_S, RECENT, SLOW_S, CommitPlace, Fsync, Threads

SEGMENT_BYTES = 4 * BYTES_MAX


def frames_of(log: Log, *sizes: int) -> list[Frame]:
    frames = []
    for size in sizes:
        frame = log.begin(size)
        frame.append(bytes(size))
        log.finish(frame)
        frames.append(frame)
    return frames


@pytest.fixture
def log() -> Log:
    """A log whose first segment is begun."""
    log = Log.open(MemoryFolder(), segment_bytes=SEGMENT_BYTES)
    log.recover(lambda segment, position, payload: None)
    for frame in frames_of(log, 10):
        log.write_durably(frame)
    log.confirm()
    return log


class Place(CommitPlace):
    """On a clock that the test moves."""

    def __init__(self, log: Log, *, syncs: bool = True) -> None:
        self.time = 1_000.0
        super().__init__(log, syncs=syncs, now=lambda: self.time)


def test_a_small_commit_on_a_quick_disk_is_written_by_the_loop(log: Log) -> None:
    place = Place(log)
    frames = frames_of(log, 100, 200)
    assert place.is_here(frames)
    assert place.commit(frames) is None
    assert log.confirmed == frames[-1].end


def test_a_large_commit_and_a_new_segment_are_for_the_thread(log: Log) -> None:
    place = Place(log)
    assert not place.is_here(frames_of(log, BYTES_MAX // 2, BYTES_MAX // 2 + 1))
    log.roll()
    assert not place.is_here(frames_of(log, 10))


def test_without_a_sync_for_each_commit_the_thread_writes_all(log: Log) -> None:
    """It may sync at any time what was written before."""
    assert not Place(log, syncs=False).is_here(frames_of(log, 10))


def test_one_slow_commit_says_nothing_and_two_in_a_row_do(log: Log) -> None:
    place = Place(log)
    for seconds in (2 * SLOW_S, QUICK_S / 5, 2 * SLOW_S):
        place.took(seconds)
        assert place.is_quick
    place.took(2 * SLOW_S)
    assert not place.is_quick
    place.time += AWAY_S
    assert place.is_quick  # The loop tries once more …
    place.took(2 * SLOW_S)
    assert not place.is_quick  # … and that one is slow as well.
    place.time += AWAY_S
    place.took(QUICK_S / 5)
    place.took(2 * SLOW_S)
    assert place.is_quick


def test_a_disk_that_is_never_quick_gets_the_thread_and_one_try_now_and_then(log: Log) -> None:
    place = Place(log)
    for _ in range(RECENT):
        assert place.is_quick
        place.took(2 * QUICK_S)
    assert not place.is_quick
    place.time += AWAY_S
    assert place.is_quick
    place.took(2 * QUICK_S)
    assert not place.is_quick
    place.time += AWAY_S
    place.took(QUICK_S / 5)
    for _ in range(RECENT - 1):
        place.took(2 * QUICK_S)  # A busy machine.
        assert place.is_quick


@contextmanager
def running(log: Log) -> Iterator[Threads]:
    threads = Threads(log, asyncio.get_running_loop(), fsync=Fsync.ALWAYS)
    try:
        yield threads
    finally:
        threads.stop()


@pytest.mark.clause("W5")
async def test_the_loop_writes_nothing_while_the_writer_thread_has_a_commit(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, released, done = Event(), Event(), asyncio.Event()
    write = log.write_durably

    def held(frame: Frame) -> None:
        begun.set()
        released.wait()
        write(frame)

    monkeypatch.setattr(log, "write_durably", held)
    first, second = frames_of(log, 10, 10)
    with running(log) as threads:
        assert threads.commits_here([first])
        threads.commit([first], lambda error: done.set())
        assert not threads.commits_here([second])  # It waits in the queue …
        await asyncio.to_thread(begun.wait)
        assert not threads.commits_here([second])  # … and now it is being written.
        with pytest.raises(ValueError, match="not the next"):
            write(second)
        released.set()
        await done.wait()
        assert threads.commits_here([second])
        assert threads.commit_here([second]) is None
    assert log.confirmed == second.end


@pytest.mark.clause("P1")
async def test_a_failure_on_the_loop_is_the_commit_s_error(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(frame: Frame) -> None:
        raise OSError(5, "the disk is gone")

    monkeypatch.setattr(log, "write_durably", fails)
    before = log.confirmed
    with running(log) as threads:
        error = threads.commit_here(frames_of(log, 10))
    assert isinstance(error, OSError)
    assert log.confirmed == before
