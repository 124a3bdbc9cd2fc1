"""Laying out, writing, reading and folding frames, on every kind of folder."""

import threading

import pytest

from driftq.errors import LogCorrupt, LogError, LogLocked
from driftq.log import MAX_PAYLOAD, Folder, Log
from driftq.log.disk import OsFolder
from driftq.log.memory import MemoryFolder
from tests.unit.log.history import SMALL, commit, commit_all, folded, laid_out, opened, recovered


@pytest.mark.clause("W1")
def test_what_was_committed_is_folded_in_order_with_its_place(folder: Folder) -> None:
    log = opened(folder)
    payloads = [bytes([number]) * (number * 7 % 300 + 1) for number in range(40)]
    frames = commit_all(log, payloads)
    assert len(log.segments) > 3
    found: list[tuple[int, int, bytes]] = []
    recovery = log.recover(
        lambda segment, position, payload: found.append((segment, position, bytes(payload)))
    )
    assert found == [
        (frame.segment, frame.position, payload) for frame, payload in zip(frames, payloads, strict=True)
    ]
    assert (recovery.frames, recovery.bytes) == (40, sum(map(len, payloads)))
    assert (recovery.last_lsn, recovery.cut) == (40, None)


def test_positions_are_known_before_the_frame_is_written_and_hold_afterwards(folder: Folder) -> None:
    log = opened(folder)
    commit(log, b"first")
    frame = log.begin(20)
    here = frame.append(b"second")
    there = frame.append(b"third")
    log.finish(frame)
    log.write(frame)
    assert log.read(frame.segment, here, 6) == b"second"
    assert log.read(frame.segment, there, 5) == b"third"
    assert (log.last_lsn, log.written_bytes) == (2, 2 * 24 + 16)


def test_frames_may_be_laid_out_far_ahead_of_the_writer(folder: Folder) -> None:
    log = opened(folder)
    payloads = [bytes([65 + number]) * 200 for number in range(20)]
    frames = [laid_out(log, payload) for payload in payloads]
    assert log.last_lsn == 0
    for frame in frames:
        log.write(frame)
    assert folded(log)[0] == payloads


def test_a_thread_writes_while_another_lays_out(folder: Folder) -> None:
    log = opened(folder)
    frames = [laid_out(log, b"x" * 100)]
    ready = threading.Semaphore(1)

    def write_all() -> None:
        for number in range(300):
            ready.acquire()
            log.write(frames[number])
            log.sync()
            log.confirm()

    writer = threading.Thread(target=write_all)
    writer.start()
    for number in range(1, 300):
        frames.append(laid_out(log, b"%d" % number * 30))
        ready.release()
    writer.join()
    assert log.last_lsn == 300
    assert len(folded(log)[0]) == 300


def test_the_lsn_goes_on_across_segments_and_restarts(folder: Folder) -> None:
    log = opened(folder)
    commit_all(log, [b"a" * 600, b"b" * 600])
    assert log.segments == [1, 2]
    recovery = folded(log)[1]
    assert (recovery.last_lsn, recovery.segments) == (2, (1, 2))
    third = commit(log, b"c" * 300)
    assert (third.lsn, third.segment) == (3, 2)


def test_a_frame_goes_to_the_next_segment_when_it_does_not_fit_below_the_end(folder: Folder) -> None:
    log = opened(folder)
    commit(log, b"a" * 500)
    room = SMALL - (64 + 24 + 500) - 24
    exact = log.begin(room)
    assert (exact.segment, exact.capacity) == (1, room)
    log.finish(exact)
    above = log.begin(room + 1)
    assert (above.segment, above.position, above.capacity) == (2, 64 + 24, SMALL - 64 - 24)


def test_a_frame_larger_than_a_segment_gets_one_for_itself(folder: Folder) -> None:
    log = opened(folder)
    payloads = [b"a" * 3000, b"b", b"c" * 5000, b"d"]
    frames = commit_all(log, payloads)
    assert [frame.segment for frame in frames] == [1, 2, 3, 4]
    assert folded(log)[0] == payloads


def test_a_sealed_segment_gives_its_unused_end_back(folder: Folder) -> None:
    log = opened(folder)
    commit_all(log, [b"a" * 600, b"b" * 600])
    sealed = folder.open("00000000000000000001.log")
    assert sealed.size() == 64 + 24 + 600


def test_a_capacity_never_exceeds_what_a_frame_may_hold() -> None:
    log = opened(MemoryFolder(), segment_bytes=64 * 1024 * 1024)
    frame = log.begin(1)
    assert frame.capacity == MAX_PAYLOAD
    log.finish(frame)
    assert log.begin(MAX_PAYLOAD).capacity == MAX_PAYLOAD


def test_an_empty_frame_is_forgotten(folder: Folder) -> None:
    log = opened(folder)
    empty = log.begin(10)
    log.finish(empty)
    with pytest.raises(ValueError, match="not the next"):
        log.write(empty)
    frame = commit(log, b"a")
    assert (frame.lsn, frame.position) == (1, empty.position)


def test_misuse_is_refused_before_it_does_harm(folder: Folder) -> None:
    log = Log.open(folder)
    with pytest.raises(LogError, match="not been recovered"):
        log.begin(1)
    folded(log)
    with pytest.raises(ValueError, match="do not fit"):
        log.begin(MAX_PAYLOAD + 1)
    first = log.begin(1)
    with pytest.raises(ValueError, match="still open"):
        log.begin(1)
    first.append(b"a")
    with pytest.raises(ValueError, match="not the next"):
        log.write(first)
    log.finish(first)
    with pytest.raises(ValueError, match="do not fit"):
        first.append(b"late")
    with pytest.raises(ValueError, match="not the open one"):
        log.finish(first)
    second = laid_out(log, b"b")
    with pytest.raises(ValueError, match="not the next"):
        log.write(second)
    log.write(first)
    log.write(second)
    assert folded(log)[0] == [b"a", b"b"]


@pytest.mark.clause("W4")
def test_reading_past_the_end_of_a_file_is_damage_and_not_a_short_answer(folder: Folder) -> None:
    log = opened(folder)
    frame = commit(log, b"abc")
    assert log.try_read(1, frame.position, 3) in (b"abc", None)
    with pytest.raises(LogCorrupt) as caught:
        log.read(1, 5000, 10)
    assert (caught.value.position, caught.value.folder) == (5000, folder.path)


@pytest.mark.clause("W6")
def test_a_second_log_on_the_folder_is_refused_until_the_first_is_closed(folder: Folder) -> None:
    first = opened(folder)
    commit(first, b"a")
    again = OsFolder(folder.path) if isinstance(folder, OsFolder) else folder
    with pytest.raises(LogLocked) as caught:
        Log.open(again)
    assert caught.value.path == folder.path
    first.close()
    assert recovered(again)[0] == [b"a"]
