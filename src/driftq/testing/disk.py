"""A simulated disk that loses power and fails, the same way each time for the same `random.Random`.

A write is visible to the process at once and waits, sector by sector, for a sync. `crash` returns what a
power cut would leave: the synced content and any part of the waiting sectors, in any order. `process_kill`
returns what SIGKILL leaves: everything written, of which a later power cut can still lose the unsynced part.
Both leave this folder unchanged, so that one history can be crashed at every step.

A write that syncs itself is two steps, a write and a sync of its own sectors alone: a power cut between them
leaves any part of them, and what was written before it goes on waiting.

A failed write leaves a prefix. A failed sync does what kernels do: of the waiting sectors, some are on the
disk, some are dropped although reads still show them, and some go on waiting.

Not simulated: spontaneous bit flips (use `SimFile.flip`) and a disk that fills up by itself (plan an ENOSPC).
"""

from __future__ import annotations

import errno
import os
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal

from driftq.errors import LogLocked
from driftq.log.files import Bytes

SECTOR_BYTES = 512

Operation = Literal["write", "sync", "allocate", "truncate", "create", "rename"]


class ProcessKilled(Exception):
    """The step at which `SimFolder.kill_after` stops the process that is at work."""


class PowerCut(Exception):
    """The step at which `SimFolder.cut_power_after` stops the program."""


@dataclass(frozen=True, slots=True)
class _Write:
    position: int
    content: bytes

    def apply(self, content: bytearray) -> None:
        if self.position > len(content):
            content.extend(bytes(self.position - len(content)))
        content[self.position : self.position + len(self.content)] = self.content


@dataclass(frozen=True, slots=True)
class _Resize:
    size: int
    may_shrink: bool

    def apply(self, content: bytearray) -> None:
        if self.size > len(content):
            content.extend(bytes(self.size - len(content)))
        elif self.may_shrink:
            del content[self.size :]


_Change = _Write | _Resize


class _Faults:
    """What goes wrong, and when. Shared by a folder and its files."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.rate = 0.0
        self.steps = 0
        self.last_step: int | None = None
        self.kill_step: int | None = None
        self.planned: defaultdict[str, deque[tuple[int, int | None]]] = defaultdict(deque)

    def step(self, operation: Operation | Literal["remove"]) -> tuple[int, int | None] | None:
        """Count one step; the error number and byte count of the fault that strikes it, if one does."""
        if self.last_step is not None and self.steps >= self.last_step:
            raise PowerCut
        if self.kill_step is not None and self.steps >= self.kill_step:
            raise ProcessKilled
        self.steps += 1
        if self.planned[operation]:
            return self.planned[operation].popleft()
        if operation != "remove" and self.random.random() < self.rate:
            return errno.EIO, None
        return None

    def strike(self, operation: Operation) -> None:
        """Count one step that happens wholly or not at all."""
        if fault := self.step(operation):
            raise _failure(fault[0])


class SimFile:
    def __init__(self, faults: _Faults, content: bytes | bytearray = b"") -> None:
        self._faults = faults
        self._seen = bytearray(content)
        self._stable = bytearray(content)
        self._waiting: list[_Change] = []

    def write_at(self, position: int, parts: Sequence[Bytes]) -> None:
        content = b"".join(parts)
        fault = self._faults.step("write")
        if fault is not None:
            error, after_bytes = fault
            if after_bytes is None:
                after_bytes = self._faults.random.randint(0, len(content))
            self._put(position, content[:after_bytes])
            raise _failure(error)
        self._put(position, content)

    def write_through(self, position: int, parts: Sequence[Bytes]) -> None:
        self.write_at(position, parts)
        fault = self._faults.step("sync")
        if fault is not None:
            self._muddle()
            raise _failure(fault[0])
        self._settle(position, position + sum(map(len, parts)))

    def read_at(self, position: int, size: int) -> bytes:
        return bytes(self._seen[position : position + size])

    def try_read_at(self, position: int, size: int) -> bytes | None:
        return self.read_at(position, size)

    def sync(self) -> None:
        fault = self._faults.step("sync")
        if fault is not None:
            self._muddle()
            raise _failure(fault[0])
        for change in self._waiting:
            change.apply(self._stable)
        self._waiting.clear()

    def allocate(self, size: int) -> None:
        self._faults.strike("allocate")
        self._do(_Resize(size, may_shrink=False))

    def fill(self, position: int, size: int) -> None:
        self.write_through(position, [bytes(size)])

    def truncate(self, size: int) -> None:
        self._faults.strike("truncate")
        self._do(_Resize(size, may_shrink=True))

    def size(self) -> int:
        return len(self._seen)

    def close(self) -> None:
        pass

    def flip(self, position: int, mask: int = 0x01) -> None:
        """Flip bits of one byte without any write."""
        self._seen[position] ^= mask
        if position < len(self._stable):
            self._stable[position] ^= mask

    def after_crash(self, faults: _Faults) -> SimFile:
        random = faults.random
        content = bytearray(self._stable)
        resizes_kept = random.randint(0, sum(isinstance(change, _Resize) for change in self._waiting))
        prefix = random.randint(0, len(self._waiting))
        mode = random.choice(("nothing", "everything", "prefix", "some"))
        for index, change in enumerate(self._waiting):
            if mode == "some" and isinstance(change, _Resize):
                kept = resizes_kept > 0  # A journal keeps the order of these among themselves.
                resizes_kept -= 1
            elif mode == "some":
                kept = random.random() < 0.5
            else:
                kept = mode == "everything" or (mode == "prefix" and index < prefix)
            if kept:
                change.apply(content)
        return SimFile(faults, content)

    def after_kill(self, faults: _Faults) -> SimFile:
        copy = SimFile(faults, self._seen)
        copy._stable = bytearray(self._stable)
        copy._waiting = list(self._waiting)
        return copy

    def _do(self, change: _Change) -> None:
        change.apply(self._seen)
        self._waiting.append(change)

    def _put(self, position: int, content: bytes) -> None:
        done = 0
        while done < len(content):
            room = SECTOR_BYTES - (position + done) % SECTOR_BYTES
            self._do(_Write(position + done, content[done : done + room]))
            done += room

    def _settle(self, start: int, end: int) -> None:
        """The sectors from `start` to `end` are on the disk as they are seen; so is the size of the file."""
        first, last = start // SECTOR_BYTES, (end - 1) // SECTOR_BYTES
        waiting: list[_Write] = []
        for change in self._waiting:
            if isinstance(change, _Resize):
                change.apply(self._stable)
                if change.may_shrink:
                    waiting = [one for one in waiting if one.position < change.size]
            elif not first <= change.position // SECTOR_BYTES <= last:
                waiting.append(change)
        self._waiting = list(waiting)
        begin = first * SECTOR_BYTES
        _Write(begin, bytes(self._seen[begin : (last + 1) * SECTOR_BYTES])).apply(self._stable)

    def _muddle(self) -> None:
        still_waiting: list[_Change] = []
        for change in self._waiting:
            fate = self._faults.random.choice(("stable", "forgotten", "waiting"))
            if fate == "stable" and not still_waiting:
                change.apply(self._stable)
            elif fate != "forgotten" or isinstance(change, _Resize):
                still_waiting.append(change)  # After one that waits all wait: their order must stay.
        self._waiting = still_waiting


class SimFolder:
    """A folder on the simulated disk. `fault_rate` is the chance of each step to fail with EIO."""

    def __init__(self, random: Random) -> None:
        self._faults = _Faults(random)
        self._seen: dict[str, SimFile] = {}
        self._stable: dict[str, SimFile] = {}
        self._waiting: list[_Entries] = []
        self._locked = False
        self.free = 1 << 40

    @property
    def path(self) -> str:
        return "(simulated)"

    @property
    def fault_rate(self) -> float:
        return self._faults.rate

    @fault_rate.setter
    def fault_rate(self, rate: float) -> None:
        self._faults.rate = rate

    @property
    def steps(self) -> int:
        """The number of changes and syncs so far."""
        return self._faults.steps

    def fail_next(
        self, operation: Operation, *, error: int = errno.EIO, after_bytes: int | None = None
    ) -> None:
        """Make the next such operation fail; a write after a given or a random number of bytes."""
        self._faults.planned[operation].append((error, after_bytes))

    def mend(self) -> None:
        """Cancel all planned failures."""
        self._faults.planned.clear()

    def cut_power_after(self, steps: int) -> None:
        """Allow this many more steps; the next one raises PowerCut. Then look at `crash()`."""
        self._faults.last_step = self._faults.steps + steps

    def kill_after(self, steps: int | None) -> None:
        """Allow this many more steps; the next one raises ProcessKilled. None allows all."""
        self._faults.kill_step = None if steps is None else self._faults.steps + steps

    def crash(self) -> SimFolder:
        names = dict(self._stable)
        for entries in self._waiting:
            if self._faults.random.random() < 0.5:
                _enter(names, entries)
        folder = SimFolder(self._faults.random)
        folder._seen = {name: file.after_crash(folder._faults) for name, file in names.items()}
        folder._stable = dict(folder._seen)
        return folder

    def process_kill(self) -> SimFolder:
        folder = SimFolder(self._faults.random)
        waiting = [file for entries in self._waiting for file in entries.values() if file]
        known = {*self._seen.values(), *self._stable.values(), *waiting}
        copies = {file: file.after_kill(folder._faults) for file in known}
        folder._seen = {name: copies[file] for name, file in self._seen.items()}
        folder._stable = {name: copies[file] for name, file in self._stable.items()}
        folder._waiting = [
            {name: copies[file] if file else None for name, file in entries.items()}
            for entries in self._waiting
        ]
        return folder

    def names(self) -> list[str]:
        return list(self._seen)

    def create(self, name: str) -> SimFile:
        if name in self._seen:
            raise FileExistsError(name)
        self._faults.strike("create")
        file = SimFile(self._faults)
        self._do({name: file})
        return file

    def open(self, name: str) -> SimFile:
        if name not in self._seen:
            raise FileNotFoundError(name)
        return self._seen[name]

    def remove(self, name: str) -> None:
        self.open(name)
        self._faults.step("remove")
        self._do({name: None})

    def rename(self, name: str, new: str) -> None:
        file = self.open(name)
        self._faults.strike("rename")
        self._do({name: None, new: file})

    def map(self, name: str) -> memoryview:
        file = self.open(name)
        return memoryview(file.read_at(0, file.size()))

    def sync(self) -> None:
        self._faults.strike("sync")
        for entries in self._waiting:
            _enter(self._stable, entries)
        self._waiting.clear()

    def lock(self) -> None:
        if self._locked:
            raise LogLocked(self.path)
        self._locked = True

    def free_bytes(self) -> int:
        return self.free

    def close(self) -> None:
        self._locked = False

    def _do(self, entries: _Entries) -> None:
        _enter(self._seen, entries)
        self._waiting.append(entries)


_Entries = dict[str, SimFile | None]
"""Names that change together: each leads to this file from now on, or to none."""


def _enter(names: dict[str, SimFile], entries: _Entries) -> None:
    for name, file in entries.items():
        if file is None:
            names.pop(name, None)
        else:
            names[name] = file


def _failure(error: int) -> OSError:
    return OSError(error, os.strerror(error))
