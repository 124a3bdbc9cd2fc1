"""Two ways of telling how much a process has worked."""

import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Protocol

import psutil

_DUMP_WITHIN_S = 60.0


class Meter(Protocol):
    """Tells how much a process has worked since it was last reset."""

    unit: str
    pairs: int
    """How many alternated pairs of runs make a figure that noise cannot fool."""
    scale: int
    """How many times as long a run has to be as for a meter that sees everything."""

    def command(self, command: list[str], folder: Path) -> list[str]:
        """How the process has to be started to be measured."""
        ...

    def begin(self, pid: int) -> None: ...

    def reset(self, pid: int) -> None: ...

    def read(self, pid: int, folder: Path) -> float: ...


class Callgrind:
    """Instructions, counted by valgrind."""

    unit = "instructions"
    pairs = 5
    scale = 1

    def command(self, command: list[str], folder: Path) -> list[str]:
        return [
            "valgrind",
            "--quiet",
            "--tool=callgrind",
            "--instr-atstart=no",
            f"--callgrind-out-file={folder / 'count'}",
            *command,
        ]

    def begin(self, pid: int) -> None:
        _control(pid, "--instr=on")

    def reset(self, pid: int) -> None:
        _control(pid, "--zero")

    def read(self, pid: int, folder: Path) -> float:
        _control(pid, "--dump")
        until = time.monotonic() + _DUMP_WITHIN_S
        while time.monotonic() < until:
            for file in folder.glob("count*"):
                found = _total(file)
                if found:
                    file.unlink()
                    return found
            time.sleep(0.02)
        raise TimeoutError("callgrind wrote no count")


def _control(pid: int, option: str) -> None:
    subprocess.run(
        ["callgrind_control", option, str(pid)],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=_DUMP_WITHIN_S,
    )


def _total(file: Path) -> float:
    """The sum at the end of a dump; 0 while it is being written."""
    for line in reversed(file.read_text().splitlines()[-3:]):
        if line.startswith("totals: "):
            return float(line.split()[1])
    return 0.0


class ProcessorTime:
    """Microseconds of processor time, as the system accounts for them."""

    unit = "CPU µs"
    pairs = 12
    scale = 20  # The system accounts in steps of 10 ms.

    def __init__(self) -> None:
        self._before: dict[int, float] = {}

    def command(self, command: list[str], _folder: Path) -> list[str]:
        return command

    def begin(self, pid: int) -> None:
        self.reset(pid)

    def reset(self, pid: int) -> None:
        self._before[pid] = _spent_us(pid)

    def read(self, pid: int, _folder: Path) -> float:
        return _spent_us(pid) - self._before[pid]


def _spent_us(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return (times.user + times.system) * 1e6


def best_meter() -> Meter:
    """Callgrind where it is installed, else processor time."""
    if os.name == "posix" and shutil.which("valgrind") and shutil.which("callgrind_control"):
        return Callgrind()
    return ProcessorTime()
