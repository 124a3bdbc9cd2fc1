"""The simulated disk keeps what real disks keep, and loses what they lose."""

import errno
from random import Random

import pytest

from driftq.log.memory import MemoryFile
from driftq.testing.disk import PowerCut, SimFolder


def outcomes(folder: SimFolder, name: str = "a", *, times: int = 300) -> set[bytes | None]:
    """What `times` power cuts leave of one file."""
    found: set[bytes | None] = set()
    for _ in range(times):
        after = folder.crash()
        found.add(after.open(name).read_at(0, 1 << 20) if name in after.names() else None)
    return found


@pytest.fixture
def settled(disk: SimFolder) -> SimFolder:
    """One file of 1024 synced bytes, synced into its folder."""
    file = disk.create("a")
    file.write_at(0, [b"-" * 1024])
    file.sync()
    disk.sync()
    return disk


def test_what_is_synced_survives_and_what_is_not_may_not(settled: SimFolder) -> None:
    assert outcomes(settled) == {b"-" * 1024}
    settled.open("a").write_at(0, [b"x" * 1024])
    x, y = b"x" * 512, b"-" * 512
    assert outcomes(settled) == {x + x, x + y, y + x, y + y}
    settled.open("a").sync()
    assert outcomes(settled) == {x + x}


def test_a_sector_is_never_torn(settled: SimFolder) -> None:
    settled.open("a").write_at(500, [b"x" * 24])
    assert {found.count(b"x") for found in outcomes(settled) if found} == {0, 12, 24}


def test_a_write_that_syncs_itself_keeps_its_own_sectors_and_no_others(settled: SimFolder) -> None:
    file = settled.open("a")
    file.write_at(0, [b"x" * 512])
    file.write_through(512, [b"z" * 512])
    x, y, z = b"x" * 512, b"-" * 512, b"z" * 512
    assert outcomes(settled) == {x + z, y + z}
    file.write_through(0, [b"w" * 12])
    assert outcomes(settled) == {b"w" * 12 + b"x" * 500 + z}  # The rest of the sector went with it.


def test_a_power_cut_in_a_write_that_syncs_itself_leaves_any_of_its_sectors(settled: SimFolder) -> None:
    settled.cut_power_after(1)
    with pytest.raises(PowerCut):
        settled.open("a").write_through(0, [b"x" * 1024])
    x, y = b"x" * 512, b"-" * 512
    assert outcomes(settled) == {x + x, x + y, y + x, y + y}


def test_a_write_that_fails_to_sync_itself_may_be_forgotten_although_it_is_read() -> None:
    found: set[bytes | None] = set()
    for seed in range(50):
        disk = SimFolder(Random(seed))
        file = disk.create("a")
        disk.sync()
        disk.fail_next("sync")
        with pytest.raises(OSError, match="error"):
            file.write_through(0, [b"x" * 512])
        file.sync()
        assert file.read_at(0, 512) == b"x" * 512
        found |= outcomes(disk, times=1)
    assert found == {b"", b"x" * 512}


def test_a_write_that_syncs_itself_keeps_the_size_it_needs(settled: SimFolder) -> None:
    file = settled.open("a")
    file.write_at(600, [b"x" * 10])
    file.truncate(512)
    file.allocate(2048)
    file.write_through(1024, [b"z" * 512])
    assert outcomes(settled) == {b"-" * 512 + bytes(512) + b"z" * 512 + bytes(512)}


def test_a_new_file_may_vanish_until_its_folder_is_synced(disk: SimFolder) -> None:
    file = disk.create("a")
    file.write_at(0, [b"abc"])
    file.sync()
    assert outcomes(disk) == {None, b"abc"}
    disk.sync()
    assert outcomes(disk) == {b"abc"}
    disk.remove("a")
    assert outcomes(disk) == {None, b"abc"}
    disk.sync()
    assert outcomes(disk) == {None}


def test_an_unsynced_change_of_size_may_be_lost(settled: SimFolder) -> None:
    settled.open("a").truncate(10)
    settled.open("a").allocate(20)
    ten = b"-" * 10
    assert outcomes(settled) == {b"-" * 1024, ten, ten + bytes(10)}


def test_a_killed_process_leaves_what_it_wrote_but_not_synced(settled: SimFolder) -> None:
    settled.open("a").write_at(0, [b"x" * 512])
    killed = settled.process_kill()
    assert killed.open("a").read_at(0, 512) == b"x" * 512
    assert len(outcomes(killed)) == 2
    killed.open("a").sync()
    assert len(outcomes(killed)) == 1
    assert len(outcomes(settled)) == 2


def test_a_failed_sync_may_forget_what_a_later_one_does_not_bring_back() -> None:
    found: set[bytes | None] = set()
    for seed in range(50):
        disk = SimFolder(Random(seed))
        file = disk.create("a")
        disk.sync()
        file.write_at(0, [b"x" * 512])
        disk.fail_next("sync")
        with pytest.raises(OSError, match="error"):
            file.sync()
        file.sync()
        assert file.read_at(0, 512) == b"x" * 512
        found |= outcomes(disk, times=1)
    assert found == {b"", b"x" * 512}


def test_a_failed_write_leaves_a_prefix(disk: SimFolder) -> None:
    file = disk.create("a")
    disk.fail_next("write", error=errno.ENOSPC, after_bytes=3)
    with pytest.raises(OSError, match="space") as caught:
        file.write_at(0, [b"abcdef"])
    assert (caught.value.errno, file.read_at(0, 10)) == (errno.ENOSPC, b"abc")
    file.write_at(0, [b"abcdef"])


def test_faults_come_at_the_rate_that_was_set(disk: SimFolder) -> None:
    file = disk.create("a")
    disk.fault_rate = 0.3
    failures = 0
    for _ in range(1000):
        try:
            file.sync()
        except OSError:
            failures += 1
    assert 230 < failures < 370


def test_power_goes_off_after_the_given_step(disk: SimFolder) -> None:
    file = disk.create("a")
    disk.cut_power_after(2)
    file.write_at(0, [b"a"])
    file.sync()
    with pytest.raises(PowerCut):
        disk.sync()
    assert disk.steps == 3


def test_the_same_seed_gives_the_same_disk() -> None:
    def story(seed: int) -> list[set[bytes | None]]:
        disk = SimFolder(Random(seed))
        file = disk.create("a")
        file.write_at(0, [bytes(range(256)) * 40])
        return [outcomes(disk, times=1) for _ in range(10)]

    assert story(5) == story(5)
    assert story(5) != story(6)


def test_memory_holds_what_was_written_and_no_more() -> None:
    file = MemoryFile()
    file.allocate(1 << 40)
    file.write_at(0, [b"abc"])
    assert file.size() == 3
