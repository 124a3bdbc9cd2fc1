"""The folder behind the segments: created once, whole, and nothing else in sight."""

from pathlib import Path

import pytest

from driftq.errors import InvalidArgument, SegmentLost
from driftq.eventstore.objects import open_objects
from driftq.eventstore.stored import SegmentRange

pytestmark = pytest.mark.clause("S8")
NAME = SegmentRange(1, 2).name


def test_an_object_is_created_once(tmp_path: Path) -> None:
    objects = open_objects(tmp_path.as_uri())
    assert objects.create(NAME, b"first")
    assert not objects.create(NAME, b"second")
    assert objects.read(NAME) == b"first"
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [Path(NAME).name]


def test_what_a_killed_writer_left_is_never_listed_and_is_swept(tmp_path: Path) -> None:
    objects = open_objects(tmp_path.as_uri())
    (tmp_path / "staging" / "half").write_bytes(b"ha")
    (tmp_path / "segments" / "notes.txt").write_bytes(b"not ours")
    assert list(objects.segments()) == []
    objects.sweep()
    assert list((tmp_path / "staging").iterdir()) == []


def test_segments_are_listed_in_order_and_from_a_place(tmp_path: Path) -> None:
    objects = open_objects(tmp_path.as_uri())
    ranges = [SegmentRange(1, 9), SegmentRange(10, 10), SegmentRange(11, 200)]
    for each in reversed(ranges):
        objects.create(each.name, b"")
    assert list(objects.segments()) == ranges
    assert list(objects.segments(after=ranges[0])) == ranges[1:]


def test_an_object_that_is_not_there_is_lost(tmp_path: Path) -> None:
    with pytest.raises(SegmentLost):
        open_objects(tmp_path.as_uri()).read(NAME)


def test_a_folder_with_odd_letters_is_found_by_its_url(tmp_path: Path) -> None:
    folder = tmp_path / "a b%20ü"
    open_objects(folder.as_uri()).create(NAME, b"x")
    assert (folder / NAME).read_bytes() == b"x"


@pytest.mark.parametrize("url", ["", "events", "ftp://x/y", "s3://", "file://host/x", "file:"])
def test_other_addresses_are_refused(url: str) -> None:
    with pytest.raises(InvalidArgument):
        open_objects(url)
