"""Parts of a cluster, killed with SIGKILL when their moment has come."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil

from tests.support.killing import kill_tree

if TYPE_CHECKING:
    from tests.matrix.cluster.stage import ClusterStage

KILLED = -signal.SIGKILL
"""What Popen says of a command that was killed."""
Deed = Callable[["ClusterStage", "subprocess.Popen[bytes]"], bool]


@dataclass(frozen=True)
class Kill:
    """A deed, and the moment for it: a sign that a batch is half done."""

    when: Callable[[], bool]
    deed: Deed

    def done(self, stage: ClusterStage, process: subprocess.Popen[bytes]) -> bool:
        """True when the moment was there and the part is dead."""
        return self.when() and self.deed(stage, process)


def kill_executor(stage: ClusterStage, _: subprocess.Popen[bytes]) -> bool:
    """One that runs Python, which is to say a task of ours."""
    busy = [one for one in stage.cluster.executors() if _runs_python(one)]
    if busy:
        busy[0].kill()
    return bool(busy)


def kill_daemon(stage: ClusterStage, _: subprocess.Popen[bytes]) -> bool:
    """A worker daemon, and with it the executor that it looks after; another one takes its place."""
    stage.cluster.kill_worker(0)
    stage.cluster.start_worker(0)
    return True


def kill_driver(_: ClusterStage, process: subprocess.Popen[bytes]) -> bool:
    """The driver with its JVM and its supervisor."""
    kill_tree(process)
    return True


def _runs_python(executor: psutil.Process) -> bool:
    try:
        return any("pyspark" in " ".join(child.cmdline()) for child in executor.children(recursive=True))
    except psutil.Error:
        return False  # It has just ended.
