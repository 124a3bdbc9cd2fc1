"""Killing a process with everything it has started."""

from __future__ import annotations

import signal
import subprocess
from contextlib import suppress
from typing import Any

import psutil


def kill_tree(process: subprocess.Popen[Any]) -> None:
    """SIGKILL, for a driver with its JVM and its supervisor; returns when the process itself has ended."""
    with suppress(psutil.NoSuchProcess):
        root = psutil.Process(process.pid)
        for one in [*root.children(recursive=True), root]:
            with suppress(psutil.NoSuchProcess):
                one.send_signal(signal.SIGKILL)
    process.wait()
