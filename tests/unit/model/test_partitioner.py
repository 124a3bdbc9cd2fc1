"""Where a key lands, for ever."""

from random import Random

import pytest

from driftq.errors import InvalidArgument
from driftq.model.partitioner import fnv1a_32, partition_of, partitions_of
from tests.unit.core.machine import PureBroker

# From the authors' own list of test vectors.
VECTORS = {
    b"": 0x811C9DC5,
    b"a": 0xE40C292C,
    b"b": 0xE70C2DE5,
    b"foo": 0xA9F37ED7,
    b"foobar": 0xBF9CF968,
}


@pytest.mark.clause("T3")
@pytest.mark.parametrize(("octets", "digest"), VECTORS.items())
def test_fnv1a_known_vectors(octets: bytes, digest: int) -> None:
    assert fnv1a_32(octets) == digest


@pytest.mark.clause("T3")
def test_the_keys_of_the_specification() -> None:
    assert [partition_of(f"user:{number}", partitions=3) for number in (1, 2, 3)] == [1, 0, 2]


@pytest.mark.clause("T3")
@pytest.mark.parametrize("partitions", [1, 2, 3, 4096])
def test_an_empty_key_goes_to_partition_0(partitions: int) -> None:
    assert partition_of("", partitions=partitions) == 0


@pytest.mark.clause("T3")
def test_a_key_is_hashed_as_utf8() -> None:
    assert partition_of("ключ", partitions=4096) == fnv1a_32("ключ".encode()) % 4096


@pytest.mark.clause("T3")
@pytest.mark.parametrize("partitions", [1, 3, 4096])
def test_many_keys_land_where_each_of_them_does(partitions: int) -> None:
    random = Random(3)
    for _ in range(200):
        lengths = random.choice(((36,), (5, 6, 7, 8), (0, 1, 9, 16, 255, 256, 257, 400)))
        keys = [
            "".join(random.choices("az09-é€😀\0", k=random.choice(lengths)))
            for _ in range(random.randrange(80))
        ]
        assert partitions_of(keys, partitions=partitions) == [
            partition_of(key, partitions=partitions) for key in keys
        ]


@pytest.mark.clause("T3")
def test_the_highest_and_lowest_bytes_do_not_reach_the_neighbours() -> None:
    keys = [chr(byte) * 24 for byte in range(128)]
    assert partitions_of(keys, partitions=4096) == [fnv1a_32(key.encode()) % 4096 for key in keys]


@pytest.mark.clause("T3")
def test_an_override_wins_over_the_key_and_must_be_in_range() -> None:
    broker = PureBroker(partitions=3)
    assert broker.produce("a", key="user:1", override=2) == [(2, 0)]
    for override in (-1, 3):
        (refused,) = broker.produce("b", override=override)
        assert isinstance(refused, InvalidArgument)
    assert broker.topic.next_offset == 1
