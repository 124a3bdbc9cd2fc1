"""Any byte changed or cut off: in the last frame a torn tail, anywhere before it corruption."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftq.errors import LogCorrupt
from driftq.log import Frame
from driftq.log.segment import segment_name
from driftq.testing.disk import SimFolder
from tests.unit.log.history import commit_all, contents, opened, recovered

SEGMENT_BYTES = 1500
Sizes = st.lists(st.integers(1, 900), min_size=2, max_size=8)


def written(sizes: list[int], seed: int) -> tuple[SimFolder, list[bytes], list[Frame]]:
    random = Random(seed)
    disk = SimFolder(random)
    payloads = [random.randbytes(size) for size in sizes]
    log = opened(disk, segment_bytes=SEGMENT_BYTES)
    frames = commit_all(log, payloads)
    log.close()
    return disk, payloads, frames


def assert_refused(disk: SimFolder) -> LogCorrupt:
    before = contents(disk)
    with pytest.raises(LogCorrupt) as caught:
        recovered(disk, segment_bytes=SEGMENT_BYTES)
    assert contents(disk) == before
    return caught.value


@pytest.mark.clause("W4")
def test_every_single_byte_of_a_log_is_watched() -> None:
    """Exhaustive, on one log of three segments: each byte of each file, with a changing bit."""
    disk, payloads, frames = written([300, 500, 400, 600, 700, 90, 40], seed=3)
    last = frames[-1]
    assert last.segment == 3
    for number in (1, 2, 3):
        file = disk.open(segment_name(number))
        used = last.position + last.size if number == 3 else file.size()
        for position in range(used):
            mask = 1 << position % 8
            if number == 3 and position >= last.position - 24:
                damaged = disk.crash()
                damaged.open(segment_name(number)).flip(position, mask)
                found, recovery = recovered(damaged, segment_bytes=SEGMENT_BYTES)
                assert found == payloads[:-1]
                assert recovery.cut is not None
                assert (recovery.cut.position, recovery.cut.bytes) == (last.position - 24, last.size + 24)
                continue
            file.flip(position, mask)
            with pytest.raises(LogCorrupt) as caught:
                recovered(disk, segment_bytes=SEGMENT_BYTES)
            assert caught.value.path.endswith(segment_name(number))
            assert caught.value.position <= position
            file.flip(position, mask)
    assert recovered(disk, segment_bytes=SEGMENT_BYTES)[0] == payloads


@pytest.mark.clause("W4")
@settings(max_examples=300, deadline=None)
@given(
    sizes=Sizes,
    seed=st.integers(0, 2**32),
    mask=st.integers(1, 255),
    choice=st.randoms(use_true_random=False),
)
def test_a_damaged_byte_before_the_last_frame_is_corruption(
    sizes: list[int], seed: int, mask: int, choice: Random
) -> None:
    disk, _, frames = written(sizes, seed)
    frame = choice.choice(frames[:-1])
    position = choice.randrange(frame.position - 24, frame.position + frame.size)
    disk.open(segment_name(frame.segment)).flip(position, mask)
    error = assert_refused(disk)
    assert (error.path, error.position) == (
        f"{disk.path}/{segment_name(frame.segment)}",
        frame.position - 24,
    )


@pytest.mark.clause("W4")
@settings(max_examples=300, deadline=None)
@given(sizes=Sizes, seed=st.integers(0, 2**32), choice=st.randoms(use_true_random=False))
def test_the_last_segment_cut_at_any_byte_is_a_torn_tail(sizes: list[int], seed: int, choice: Random) -> None:
    disk, payloads, frames = written(sizes, seed)
    last = frames[-1]
    size = choice.randint(0, last.position + last.size)
    disk.open(segment_name(last.segment)).truncate(size)
    kept = [
        payload
        for frame, payload in zip(frames, payloads, strict=True)
        if frame.segment < last.segment or frame.position + frame.size <= size
    ]
    found, recovery = recovered(disk, segment_bytes=SEGMENT_BYTES)
    assert found == kept
    ends = {64, *(frame.position + frame.size for frame in frames if frame.segment == last.segment)}
    assert (recovery.cut is None) == (size in ends)
    log = opened(disk, segment_bytes=SEGMENT_BYTES)
    commit_all(log, [b"next", b"x" * 800])
    assert recovered(disk.crash(), segment_bytes=SEGMENT_BYTES)[0] == [*kept, b"next", b"x" * 800]


@pytest.mark.clause("W4")
@settings(max_examples=300, deadline=None)
@given(sizes=Sizes, seed=st.integers(0, 2**32), choice=st.randoms(use_true_random=False))
def test_a_sealed_segment_cut_at_any_byte_is_corruption(sizes: list[int], seed: int, choice: Random) -> None:
    disk, _, _ = written([*sizes, 900, 900], seed)
    sealed = choice.choice(sorted(disk.names())[:-1])
    disk.open(sealed).truncate(choice.randrange(disk.open(sealed).size()))
    assert_refused(disk)
