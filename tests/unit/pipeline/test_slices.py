"""How a rebuild cuts topics: every message up to the pinned end lies in one slice."""

import msgspec

from driftq.model import TopicView
from driftq.model.wire.topics import PartitionView
from driftq.pipeline.projection.slices import slices_of
from driftq.tables.reader import TableFile


def view(*partitions: tuple[int, int, int]) -> TopicView:
    """Each partition as first offset, end and messages."""
    seen = [
        PartitionView(partition=number, first_offset=first, next_offset=end, messages=messages, bytes=0)
        for number, (first, end, messages) in enumerate(partitions)
    ]
    return TopicView(name="orders", partitions=seen, groups=[], readers=[])


def file(partition: int, first: int, last: int, rows: int) -> TableFile:
    return TableFile(f"{partition}-{first}-{last}", partition, first, last, rows)


def test_without_files_the_offsets_are_cut_evenly() -> None:
    first, second, third = slices_of(view((0, 100, 50), (1, 100, 50)), [], messages_max=40)
    assert (first.starts, first.ends) == ({0: 0, 1: 1}, {0: 33, 1: 34})
    assert (second.starts, third.ends) == (first.ends, {0: 100, 1: 100})
    assert third.starts == second.ends


def test_files_come_first_and_the_rest_begins_behind_them() -> None:
    files = [file(0, 0, 9, 10), file(0, 10, 19, 10), file(1, 0, 9, 5)]
    cut = list(slices_of(view((0, 30, 30), (0, 12, 7)), files, messages_max=20))
    assert [piece.files for piece in cut] == [("0-0-9", "0-10-19"), ("1-0-9",), ()]
    assert (cut[2].starts, cut[2].ends, cut[2].messages) == ({0: 20, 1: 10}, {0: 30, 1: 12}, 12)


def test_what_was_sealed_after_the_end_was_pinned_is_left_out() -> None:
    files = [file(0, 0, 9, 10), file(0, 10, 19, 10), file(0, 20, 29, 10)]
    cut = list(slices_of(view((0, 15, 15)), files, messages_max=100))
    assert [piece.files for piece in cut] == [("0-0-9", "0-10-19")]
    assert cut[0].ends == {0: 15}


def test_an_empty_topic_has_no_slices() -> None:
    assert list(slices_of(view((0, 0, 0)), [], messages_max=10)) == []


def test_files_of_a_deleted_topic_with_the_same_name_are_left_out() -> None:
    reborn = msgspec.structs.replace(view((20, 30, 10)), start_offset=20)
    cut = list(slices_of(reborn, [file(0, 0, 19, 20), file(0, 20, 24, 5)], messages_max=100))
    assert [piece.files for piece in cut] == [("0-20-24",), ()]
    assert (cut[1].starts, cut[1].messages) == ({0: 25}, 5)
