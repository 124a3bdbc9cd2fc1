"""The port's promises, on real files and on every other adapter."""

import errno
import os
import subprocess
import sys
from array import array
from pathlib import Path

import pytest

from driftq.errors import LogLocked
from driftq.log import Folder, Log
from driftq.log import disk as disk_module
from driftq.log.disk import OsFile, OsFolder
from driftq.log.handles import OpenSegments
from tests.unit.log.history import commit, commit_all, opened, recovered


def test_parts_are_written_one_behind_the_other_however_many(folder: Folder) -> None:
    file = folder.create("a")
    parts = [b"%d," % number for number in range(5000)]
    file.write_at(3, [*parts, bytearray(b"end"), memoryview(b"!")])
    whole = b"".join(parts) + b"end!"
    assert file.read_at(3, len(whole) + 50) == whole
    assert file.read_at(0, 3) == bytes(3)
    assert file.size() == 3 + len(whole)


def test_reads_are_short_only_at_the_end(folder: Folder) -> None:
    file = folder.create("a")
    file.write_at(0, [b"abcdef"])
    assert (file.read_at(4, 10), file.read_at(6, 1), file.read_at(100, 5)) == (b"ef", b"", b"")
    assert file.try_read_at(0, 6) in (b"abcdef", None)
    assert file.try_read_at(4, 10) in (b"ef", None)


def test_truncate_cuts_and_grows_with_zeros(folder: Folder) -> None:
    file = folder.create("a")
    file.write_at(0, [b"abcdef"])
    file.truncate(2)
    file.truncate(4)
    assert file.read_at(0, 10) == b"ab\0\0"


def test_reserving_space_never_takes_bytes_away(folder: Folder) -> None:
    file = folder.create("a")
    file.write_at(0, [b"abcdef"])
    file.allocate(3)
    file.allocate(5000)
    assert file.read_at(0, 6) == b"abcdef"
    assert not any(file.read_at(6, 5000))


def test_a_folder_lists_creates_opens_and_removes(folder: Folder) -> None:
    folder.create("a").write_at(0, [b"x"])
    with pytest.raises(FileExistsError):
        folder.create("a")
    with pytest.raises(FileNotFoundError):
        folder.open("b")
    assert folder.open("a").read_at(0, 1) == b"x"
    assert folder.names() == ["a"]
    folder.remove("a")
    with pytest.raises(FileNotFoundError):
        folder.remove("a")
    folder.sync()
    assert folder.names() == []
    assert folder.free_bytes() > 0


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole_write = os.pwritev

    def seven_bytes(descriptor: int, parts: list[memoryview], position: int, flags: int) -> int:
        return whole_write(descriptor, [memoryview(b"".join(parts))[:7]], position, flags)

    monkeypatch.setattr(os, "pwritev", seven_bytes)
    file = OsFolder(tmp_path).create("a")
    file.write_at(0, [b"abc", b"", b"defghijklm", b"nopqrstuvwxyz"])
    assert file.read_at(0, 100) == b"abcdefghijklmnopqrstuvwxyz"


def test_a_short_write_is_seen_in_bytes_however_wide_the_items_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = array("Q", [1, 2, 3])
    whole_write = os.pwritev
    calls: list[int] = []

    def as_many_bytes_as_items(descriptor: int, parts: list[memoryview], position: int, flags: int) -> int:
        calls.append(position)
        return whole_write(descriptor, [memoryview(parts[0]).cast("B")[:3]], position, flags)

    monkeypatch.setattr(os, "pwritev", as_many_bytes_as_items)
    file = OsFolder(tmp_path).create("a")
    file.write_at(0, [memoryview(numbers)])
    assert file.read_at(0, 100) == numbers.tobytes()
    assert calls == list(range(0, 24, 3))


class Calls:
    """Counts what reaches the kernel; a write that syncs itself may be refused, and all writes are short."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, refused: int | None = None) -> None:
        self.flags: list[int] = []
        self.syncs = 0
        self._refused = refused
        self._write = os.pwritev
        monkeypatch.setattr(os, "pwritev", self.pwritev)
        monkeypatch.setattr(disk_module, "_sync", self.sync)

    def pwritev(self, descriptor: int, parts: list[memoryview], position: int, flags: int) -> int:
        self.flags.append(flags)
        if flags and self._refused is not None and len(self.flags) > 1:
            raise OSError(self._refused, "not here")
        return self._write(descriptor, [memoryview(b"".join(parts))[:7]], position)

    def sync(self, descriptor: int) -> None:
        self.syncs += 1


def through(path: Path) -> OsFile:
    return OsFile(os.open(path, os.O_RDWR | os.O_CREAT), writes_through=True)


@pytest.mark.clause("P1", "W5")
def test_a_short_write_that_syncs_itself_goes_on_with_the_flag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = Calls(monkeypatch)
    file = through(tmp_path / "a")
    file.write_through(0, [b"abcdefghij", b"klmnopqrst"])
    assert file.read_at(0, 100) == b"abcdefghijklmnopqrst"
    assert (calls.flags, calls.syncs) == ([os.RWF_DSYNC] * 3, 0)


@pytest.mark.clause("P1", "W5")
@pytest.mark.parametrize("answer", [errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL])
def test_where_no_write_syncs_itself_a_sync_follows_the_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: int
) -> None:
    """It is refused in the middle, behind a part that was written."""
    calls = Calls(monkeypatch, refused=answer)
    file = through(tmp_path / "a")
    file.write_through(0, [b"abcdefghijklmnopqrst"])
    assert file.read_at(0, 100) == b"abcdefghijklmnopqrst"
    assert (calls.flags, calls.syncs) == ([os.RWF_DSYNC, os.RWF_DSYNC, 0, 0, 0], 1)
    file.write_through(20, [b"uvw"])
    assert (calls.flags[5:], calls.syncs) == ([0], 2)  # It is not tried a second time.


@pytest.mark.clause("P1")
def test_a_write_that_fails_to_sync_itself_is_not_repeated_without_the_flag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = Calls(monkeypatch, refused=errno.EIO)
    with pytest.raises(OSError, match="not here"):
        through(tmp_path / "a").write_through(0, [b"abcdefghijklmnopqrst"])
    assert (calls.flags, calls.syncs) == ([os.RWF_DSYNC] * 2, 0)


@pytest.mark.clause("P1")
@pytest.mark.parametrize(("kind", "flag"), [("ext4", os.RWF_DSYNC), ("fuse.sshfs", 0), (None, 0)])
def test_only_known_file_systems_are_trusted_to_sync_with_the_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str | None, flag: int
) -> None:
    monkeypatch.setattr(disk_module, "_file_system", lambda device: kind)
    calls = Calls(monkeypatch)
    OsFolder(tmp_path).create("a").write_through(0, [b"abc"])
    assert (calls.flags, calls.syncs) == ([flag], 0 if flag else 1)


def test_short_reads_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole_read = os.pread
    monkeypatch.setattr(os, "pread", lambda descriptor, size, at: whole_read(descriptor, min(size, 7), at))
    file = OsFolder(tmp_path).create("a")
    file.write_at(0, [b"abcdefghijklmnopqrstuvwxyz"])
    assert file.read_at(1, 20) == b"bcdefghijklmnopqrstu"
    assert file.read_at(20, 20) == b"uvwxyz"


def test_a_file_system_that_cannot_reserve_gets_zeros_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(descriptor: int, start: int, size: int) -> None:
        raise OSError(errno.EOPNOTSUPP, "not here")

    monkeypatch.setattr(disk_module, "_allocate", unsupported)
    file = OsFolder(tmp_path).create("a")
    file.write_at(0, [b"abc"])
    file.allocate(3_000_000)
    assert file.size() == 3_000_000
    assert (tmp_path / "a").stat().st_blocks * 512 >= 3_000_000
    assert file.read_at(0, 4) == b"abc\0"


@pytest.mark.parametrize("answer", [errno.EAGAIN, errno.EOPNOTSUPP, 2])
def test_a_read_that_would_wait_gives_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: int
) -> None:
    def not_now(descriptor: int, targets: list[bytearray], position: int, flags: int) -> int:
        if answer == 2:
            return 2  # The first page was at hand and the second was not.
        raise OSError(answer, "not now")

    file = OsFolder(tmp_path).create("a")
    file.write_at(0, [b"abcdef"])
    monkeypatch.setattr(os, "preadv", not_now)
    assert file.try_read_at(0, 6) is None


def test_a_file_just_written_can_be_read_without_waiting(tmp_path: Path) -> None:
    folder = OsFolder(tmp_path)
    probe = folder.create("probe")
    probe.write_at(0, [b"a"])
    log = opened(folder)
    frame = commit(log, b"abc")
    expected = b"abc" if probe.try_read_at(0, 1) is not None else None  # Some file systems never can.
    assert log.try_read(1, frame.position, 3) == expected
    assert log.try_read(2, 88, 3) is None
    with pytest.raises(FileNotFoundError):
        log.read(2, 88, 3)


def test_few_files_are_kept_open_and_one_in_use_is_not_closed(tmp_path: Path) -> None:
    folder = OsFolder(tmp_path)
    files = OpenSegments(folder, open_max=2)
    first = files.create(1)
    first.write_at(0, [b"one"])
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    for number in range(2, 20):
        files.create(number)
    assert files.at_hand(1) is None
    assert first.read_at(0, 3) == b"one"
    assert files.get(1).read_at(0, 3) == b"one"
    if before:
        assert len(os.listdir("/proc/self/fd")) <= before + 3


@pytest.mark.clause("W1", "W4")
def test_a_log_in_real_files_is_there_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "not" / "yet" / "there"
    log = opened(OsFolder(path), segment_bytes=8192)
    payloads = [os.urandom(700) for _ in range(50)]
    commit_all(log, payloads)
    assert (path / "00000000000000000001.log").stat().st_size < 8192
    last = path / f"{log.segments[-1]:020}.log"
    assert last.stat().st_size == 8192
    log.close()
    assert recovered(OsFolder(path), segment_bytes=8192)[0] == payloads
    with last.open("r+b") as torn:
        torn.truncate(64 + 24 + 700 + 3)
    found, recovery = recovered(OsFolder(path), segment_bytes=8192)
    assert found == payloads[: len(found)]
    assert recovery.cut is not None
    assert (recovery.cut.file, recovery.cut.bytes) == (str(last), 3)
    assert last.stat().st_size == 8192


HOLD = """
import sys
from array import array
from array import array
from driftq.log import Log
from driftq.log.disk import OsFile, OsFolder
log = Log.open(OsFolder(sys.argv[1]))
print("held", flush=True)
sys.stdin.readline()
"""


@pytest.mark.clause("W6")
def test_another_process_keeps_the_folder_until_it_is_killed(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(LogLocked) as caught:
            Log.open(OsFolder(tmp_path))
        assert caught.value.path == str(tmp_path)
        holder.kill()
        holder.wait()
        Log.open(OsFolder(tmp_path)).close()
