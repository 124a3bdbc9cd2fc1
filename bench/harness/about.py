"""The machine, the code and the time of a run."""

import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[2]


def about() -> dict[str, str]:
    """What each figure of a run carries, so that files of several runs can be joined."""
    return {
        "machine": machine(),
        "revision": revision(),
        "at": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }


def machine() -> str:
    parts = [
        f"{os.cpu_count()} × {_processor()}",
        f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        f"{platform.system()} {platform.release()}",
        f"{_file_system()} on the measured disk",
        f"Python {platform.python_version()}",
    ]
    return ", ".join(parts)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.machine()


def _file_system() -> str:
    """Of the disk that the project is on, where the benchmarks keep their folders."""
    here = [one for one in psutil.disk_partitions(all=True) if ROOT.is_relative_to(one.mountpoint)]
    return max(here, key=lambda one: len(one.mountpoint)).fstype if here else "unknown file system"


def revision() -> str:
    """The commit; with a plus where files differ from it."""
    try:
        command = ["git", "-C", str(ROOT), "describe", "--always", "--abbrev=10", "--dirty=+", "--exclude=*"]
        return subprocess.run(command, capture_output=True, check=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
