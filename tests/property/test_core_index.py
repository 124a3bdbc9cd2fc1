"""The index of a partition against plain lists."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftq.core.index import FLAG_MASK, LENGTH_MASK, PartitionIndex, pack_place

runs = st.lists(
    st.tuples(
        st.booleans(),  # a new segment
        st.integers(0, 3),  # offsets of other partitions in between
        st.lists(st.integers(0, 50), min_size=1, max_size=5),  # sizes
    ),
    max_size=12,
)


@pytest.mark.clause("T4")
@given(runs, st.data())
def test_ordinals_offsets_and_bytes(added: list[tuple[bool, int, list[int]]], data: st.DataObject) -> None:
    index = PartitionIndex()
    offsets: list[int] = []
    places: list[tuple[int, int]] = []
    sizes: list[int] = []
    segment, next_offset = 1, 0
    for roll, gap, run in added:
        segment += roll
        next_offset += gap
        mine = range(next_offset, next_offset + len(run))
        index.add_run(segment, offsets=mine, places=[pack_place(offset, 7) for offset in mine], sizes=run)
        offsets += mine
        places += [(segment, offset) for offset in mine]
        sizes += run
        next_offset += len(run)
    assert index.end == len(offsets)
    for ordinal, offset in enumerate(offsets):
        place = index.place_at(ordinal)
        assert (index.offset_at(ordinal), index.find(offset)) == (offset, ordinal)
        assert (place.segment, place.position, place.length) == (*places[ordinal], 7)
    for offset in range(next_offset + 2):
        assert (index.find(offset) is not None) == (offset in offsets)
        assert index.first_ordinal_from(offset) == sum(known < offset for known in offsets)
    assert [index.bytes_upto(ordinal) for ordinal in range(len(sizes) + 1)] == [
        sum(sizes[:ordinal]) for ordinal in range(len(sizes) + 1)
    ]
    start = data.draw(st.integers(0, len(offsets)))
    stop = data.draw(st.integers(start, len(offsets)))
    step = data.draw(st.integers(1, 3))
    found = [chunk.offsets[slot] for chunk, slots in index.runs(start, stop, step) for slot in slots]
    assert found == offsets[start:stop:step]


@given(st.integers(0, 2**32 - 1), st.integers(0, LENGTH_MASK), st.integers(0, FLAG_MASK))
def test_a_place_is_packed_without_loss(position: int, length: int, flags: int) -> None:
    index = PartitionIndex()
    index.add_run(5, offsets=(0,), places=(pack_place(position, length, flags),), sizes=(1,))
    place = index.place_at(0)
    assert (place.segment, place.position, place.length, place.flags) == (5, position, length, flags)
