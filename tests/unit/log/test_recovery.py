"""What a start makes of torn tails and of damage (W4)."""

from collections.abc import Callable
from random import Random

import pytest
from crc32c import crc32c

from driftq.errors import FormatTooNew, LogCorrupt
from driftq.log import Cut, Frame
from driftq.log.memory import MemoryFile
from driftq.log.scan import CHUNK_BYTES, look_behind
from driftq.log.segment import encode_segment_header
from driftq.testing.disk import SimFolder
from tests.unit.log.history import SMALL, commit, commit_all, contents, opened, recovered

FIRST = "00000000000000000001.log"
SECOND = "00000000000000000002.log"
THIRD = "00000000000000000003.log"

PAYLOADS = [bytes([97 + number]) * 250 for number in range(8)]
"""Three of them fit into a segment: 1 2 3 | 4 5 6 | 7 8."""
FRAME = 24 + 250


@pytest.fixture
def full(disk: SimFolder) -> SimFolder:
    log = opened(disk)
    commit_all(log, PAYLOADS)
    log.close()
    assert disk.names() == [FIRST, SECOND, THIRD]
    return disk


def refused(folder: SimFolder) -> LogCorrupt:
    """The log is refused, and nothing was changed or even synced."""
    before, steps = contents(folder), folder.steps
    with pytest.raises(LogCorrupt) as caught:
        recovered(folder)
    assert (contents(folder), folder.steps) == (before, steps)
    assert caught.value.folder == folder.path
    return caught.value


@pytest.mark.clause("W4")
def test_a_torn_last_frame_is_cut_and_reported(full: SimFolder) -> None:
    torn_at = 64 + FRAME
    full.open(THIRD).truncate(torn_at + 100)
    found, recovery = recovered(full)
    assert found == PAYLOADS[:7]
    assert recovery.cut == Cut(f"{full.path}/{THIRD}", position=torn_at, bytes=100)
    again, recovery = recovered(full)
    assert (again, recovery.cut) == (PAYLOADS[:7], None)


@pytest.mark.clause("W4")
def test_zero_fill_is_no_damage_and_nothing_to_report(full: SimFolder) -> None:
    full.open(THIRD).truncate(64 + 2 * FRAME)
    full.open(THIRD).truncate(9000)
    found, recovery = recovered(full)
    assert (found, recovery.cut) == (PAYLOADS, None)


@pytest.mark.clause("W4")
def test_a_frame_whose_start_never_reached_the_disk_is_cut(full: SimFolder) -> None:
    last = full.open(THIRD)
    last.write_at(64 + FRAME, [bytes(200)])
    found, recovery = recovered(full)
    assert found == PAYLOADS[:7]
    assert recovery.cut == Cut(f"{full.path}/{THIRD}", position=64 + FRAME, bytes=FRAME)
    assert not any(last.read_at(64 + FRAME, SMALL))


@pytest.mark.clause("W4")
def test_a_damaged_frame_before_a_whole_one_stops_the_start(full: SimFolder) -> None:
    full.open(FIRST).flip(64 + FRAME + 24 + 10)
    error = refused(full)
    assert (error.path, error.position) == (f"{full.path}/{FIRST}", 64 + FRAME)
    assert "payload of frame 2" in error.problem


@pytest.mark.clause("W4")
def test_a_damaged_length_does_not_hide_the_frames_behind_it(full: SimFolder) -> None:
    full.open(THIRD).flip(64 + 7, 0x01)
    error = refused(full)
    assert (error.path, error.position) == (f"{full.path}/{THIRD}", 64)


@pytest.mark.clause("W4")
def test_the_whole_frame_behind_the_damage_may_be_in_a_later_segment(full: SimFolder) -> None:
    full.open(SECOND).flip(64 + 2 * FRAME + 30)
    error = refused(full)
    assert (error.path, error.position) == (f"{full.path}/{SECOND}", 64 + 2 * FRAME)


@pytest.mark.clause("W4")
def test_zeros_in_the_middle_are_damage(full: SimFolder) -> None:
    full.open(FIRST).write_at(64 + FRAME, [bytes(FRAME)])
    error = refused(full)
    assert (error.position, error.problem) == (64 + FRAME, "zeros stand in the place of a frame")


@pytest.mark.clause("W4")
def test_frames_cut_off_the_end_of_a_sealed_segment_are_missed(full: SimFolder) -> None:
    full.open(SECOND).truncate(64 + 2 * FRAME)
    error = refused(full)
    assert (error.path, error.position) == (f"{full.path}/{SECOND}", 64 + 2 * FRAME)
    assert "frame 5 ends it, frame 7" in error.problem


@pytest.mark.clause("W4")
def test_a_frame_in_the_place_of_another_is_damage(full: SimFolder) -> None:
    last = full.open(THIRD)
    last.write_at(64 + FRAME, [last.read_at(64, FRAME)])
    error = refused(full)
    assert (error.position, error.problem) == (64 + FRAME, "frame 7 stands where frame 8 has to be")


@pytest.mark.clause("W4")
def test_a_missing_segment_is_missed(full: SimFolder) -> None:
    full.remove(SECOND)
    error = refused(full)
    assert (error.path, error.problem) == (f"{full.path}/{SECOND}", "segment 2 is missing")


@pytest.mark.clause("W4")
@pytest.mark.parametrize("name", [FIRST, SECOND, THIRD])
def test_the_header_of_a_segment_with_frames_is_missed(full: SimFolder, name: str) -> None:
    full.open(name).flip(20)
    error = refused(full)
    assert (error.path, error.position) == (f"{full.path}/{name}", 0)


@pytest.mark.clause("W4")
def test_a_segment_under_the_name_of_another_is_damage(full: SimFolder) -> None:
    full.open(SECOND).write_at(0, [full.open(FIRST).read_at(0, 64)])
    assert refused(full).problem == "the segment header is that of segment 1"


def without_header(folder: SimFolder) -> None:
    folder.open(THIRD).truncate(0)


def with_half_a_header(folder: SimFolder) -> None:
    folder.open(THIRD).truncate(30)


def with_zeros(folder: SimFolder) -> None:
    folder.open(THIRD).truncate(0)
    folder.open(THIRD).truncate(SMALL)


def with_a_torn_frame_behind_a_torn_header(folder: SimFolder) -> None:
    folder.open(THIRD).truncate(200)
    folder.open(THIRD).flip(3)


@pytest.mark.clause("W4")
@pytest.mark.parametrize(
    "tear", [without_header, with_half_a_header, with_zeros, with_a_torn_frame_behind_a_torn_header]
)
def test_a_segment_whose_creation_was_interrupted_is_removed(
    full: SimFolder, tear: Callable[[SimFolder], None]
) -> None:
    tear(full)
    log = opened(full)
    assert (full.names(), log.segments) == ([FIRST, SECOND], [1, 2])
    assert commit(log, b"next" * 100).segment == 3
    log.close()
    assert recovered(full)[0] == [*PAYLOADS[:6], b"next" * 100]


def test_the_removal_of_a_segment_is_reported(full: SimFolder) -> None:
    with_half_a_header(full)
    cut = recovered(full)[1].cut
    assert cut is not None
    assert (cut.file, cut.position) == (f"{full.path}/{THIRD}", 0)
    assert 0 < cut.bytes <= 30


@pytest.mark.clause("W4")
def test_damage_in_a_sealed_segment_is_no_torn_tail_even_if_the_next_one_is_empty(full: SimFolder) -> None:
    without_header(full)
    full.open(SECOND).flip(64 + 2 * FRAME + 30)
    assert refused(full).position == 64 + 2 * FRAME


@pytest.mark.clause("W4")
def test_a_segment_with_a_header_and_no_frame_is_written_further(full: SimFolder) -> None:
    full.open(THIRD).truncate(64)
    log = opened(full)
    frame = commit(log, b"next")
    assert (frame.segment, frame.position, frame.lsn) == (3, 88, 7)
    log.close()
    assert recovered(full)[0] == [*PAYLOADS[:6], b"next"]


def test_a_segment_without_a_frame_is_not_left_empty_for_one_that_is_too_large(full: SimFolder) -> None:
    full.open(THIRD).truncate(64)
    frame = commit(opened(full), b"large" * 1000)
    assert (frame.segment, frame.lsn) == (3, 7)
    assert recovered(full.crash())[0] == [*PAYLOADS[:6], b"large" * 1000]


def test_a_newer_format_is_refused_by_name_and_version(full: SimFolder) -> None:
    newer = bytearray(encode_segment_header(number=3, first_lsn=7)[:60])
    newer[8] = 2
    full.open(THIRD).write_at(0, [newer, crc32c(newer).to_bytes(4, "little")])
    before = contents(full)
    with pytest.raises(FormatTooNew) as caught:
        recovered(full)
    assert (caught.value.path, caught.value.found, caught.value.known) == (f"{full.path}/{THIRD}", 2, 1)
    assert contents(full) == before


def test_a_log_may_start_with_a_later_segment(full: SimFolder) -> None:
    full.remove(FIRST)
    found, recovery = recovered(full)
    assert (found, recovery.last_lsn) == (PAYLOADS[3:], 8)


@pytest.mark.clause("W4")
def test_a_copy_of_log_bytes_inside_a_torn_payload_is_not_taken_for_a_frame(disk: SimFolder) -> None:
    log = opened(disk, segment_bytes=4096)
    commit_all(log, [b"one", b"two"])
    copy = disk.open(FIRST).read_at(64, 2 * 27)
    frame = commit(log, copy + b"x" * 300)
    log.close()
    disk.open(FIRST).truncate(frame.position + 200)
    assert recovered(disk, segment_bytes=4096)[0] == [b"one", b"two"]
    log = opened(disk, segment_bytes=4096)
    frame = commit(log, copy + b"x" * 300)
    disk.open(FIRST).flip(frame.position - 1)  # The header, so that its length cannot be trusted.
    log.close()
    assert recovered(disk, segment_bytes=4096)[0] == [b"one", b"two"]


@pytest.mark.clause("W4")
def test_what_recovery_keeps_survives_the_next_power_cut(disk: SimFolder) -> None:
    log = opened(disk)
    for payload in PAYLOADS[:3]:
        frame = log.begin(250)
        frame.append(payload)
        log.finish(frame)
        log.write(frame)  # Never synced.
    killed = disk.process_kill()
    assert recovered(killed)[0] == PAYLOADS[:3]
    for _ in range(20):
        assert recovered(killed.crash())[0] == PAYLOADS[:3]


@pytest.mark.clause("W4")
@pytest.mark.parametrize("seed", range(20))
def test_a_frame_that_a_failed_sync_left_in_the_cache_only_is_written_again(seed: int) -> None:
    disk = SimFolder(Random(seed))
    log = opened(disk, segment_bytes=8192)
    commit(log, b"a" * 700)
    frame = log.begin(2000)
    frame.append(b"b" * 2000)
    log.finish(frame)
    log.write(frame)
    disk.fail_next("sync")
    with pytest.raises(OSError, match="error"):
        log.sync()
    killed = disk.process_kill()
    kept = recovered(killed, segment_bytes=8192)[0]
    assert kept == [b"a" * 700, b"b" * 2000]
    assert recovered(killed.crash(), segment_bytes=8192)[0] == kept


@pytest.mark.clause("W4")
@pytest.mark.parametrize("seed", range(20))
def test_a_segment_header_that_a_failed_sync_left_in_the_cache_only_is_written_again(seed: int) -> None:
    disk = SimFolder(Random(seed))
    log = opened(disk)
    disk.fail_next("sync")
    with pytest.raises(OSError, match="error"):
        commit(log, b"lost")
    killed = disk.process_kill()
    log = opened(killed)
    commit(log, b"first")
    assert recovered(killed.crash())[0] == [b"first"]


@pytest.mark.clause("W4")
def test_a_log_that_was_copied_here_is_synced_whole(full: SimFolder) -> None:
    copy = SimFolder(Random(2))
    for name, content in contents(full).items():
        copy.create(name).write_at(0, [content])
    assert recovered(copy)[0] == PAYLOADS
    for _ in range(20):
        assert recovered(copy.crash())[0] == PAYLOADS


@pytest.mark.clause("W4")
@pytest.mark.parametrize("before_the_border", range(26))
def test_a_whole_frame_is_found_wherever_its_header_meets_the_border_of_a_chunk(
    before_the_border: int,
) -> None:
    file = MemoryFile()
    frame = Frame(segment=1, lsn=9, position=0, capacity=100)
    frame.append(b"payload")
    at = 100 + CHUNK_BYTES - before_the_border
    file.write_at(at, frame.encoded())
    assert look_behind(file, start=100, lsn=8).complete_frame == at
    assert look_behind(file, start=100, lsn=9) == (None, at + 24 + 7)


@pytest.mark.clause("W4")
def test_frames_larger_than_a_chunk_and_across_chunks_are_read_and_found(disk: SimFolder) -> None:
    room = 4 * CHUNK_BYTES
    log = opened(disk, segment_bytes=room)
    # The third header lies across the first chunk's end; the fourth frame is larger than a chunk.
    payloads = [
        b"a" * 1000,
        b"b" * (CHUNK_BYTES - 1000 - 3 * 24 + 10),
        b"c" * 5000,
        b"d" * (CHUNK_BYTES + 999),
        b"e",
    ]
    frames = commit_all(log, payloads)
    log.close()
    assert recovered(disk, segment_bytes=room)[0] == payloads
    disk.open(FIRST).flip(frames[3].position - 10)
    error = refused(disk)
    assert error.position == frames[3].position - 24
    disk.open(FIRST).truncate(frames[4].position)
    found, recovery = recovered(disk, segment_bytes=room)
    assert (found, recovery.cut and recovery.cut.position) == (payloads[:3], error.position)
