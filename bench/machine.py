"""The real server as a process, and a folder on the disk that is measured."""

import gc
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil


@contextmanager
def settled() -> Iterator[None]:
    """What is imported already is left alone by the search for garbage, as in a server that has started.

    This process has imported all benchmarks and what they compare with: nobody's server is like that.
    """
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def processor_times() -> dict[str, float]:
    """Seconds by what the processors were doing."""
    return dict(psutil.cpu_times()._asdict())


def kept_back(since: dict[str, float]) -> float:
    """The share of processor time since then that the host gave to other guests, where it tells."""
    spent = {name: seconds - since[name] for name, seconds in processor_times().items()}
    return spent.get("steal", 0.0) / max(sum(spent.values()), 1e-9)


@contextmanager
def folder() -> Iterator[Path]:
    """A folder on the same disk as the project, because /tmp may be memory."""
    with tempfile.TemporaryDirectory(prefix="bench-", dir=Path.cwd()) as name:
        yield Path(name)


@dataclass(slots=True)
class Measured:
    """A process with its children: what it has spent, and whether it runs at all."""

    pid: int

    def family(self) -> list[psutil.Process]:
        parent = psutil.Process(self.pid)
        return [parent, *parent.children(recursive=True)]

    def spent_s(self) -> float:
        """Seconds of processor time of the process and its children, also of those that have ended."""
        parent, *children = self.family()
        times = parent.cpu_times()
        ended = times.children_user + times.children_system
        return float(times.user + times.system + ended + sum(sum(_own_times(one)) for one in children))

    def freeze(self) -> None:
        """Stand still, so that work in the background does not disturb the other side of a comparison."""
        self._signal(signal.SIGSTOP)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run within, and stand still afterwards."""
        self._signal(signal.SIGCONT)
        try:
            yield
        finally:
            self.freeze()

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        for one in self.family():
            with suppress(psutil.NoSuchProcess):
                one.send_signal(number)


def _own_times(process: psutil.Process) -> tuple[float, float]:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0, 0.0  # It counts among the ended children of its parent now.
    return times.user, times.system


ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""Of a server: its modules are compiled once, as in an installed one."""


class Server:
    """`driftq serve` on a free port."""

    def __init__(self, data: Path, *arguments: str, environment: dict[str, str] | None = None) -> None:
        command = [sys.executable, "-m", "driftq", "serve", "--port", "0", "--data", str(data), *arguments]
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=ENVIRONMENT | (environment or {}),
        )
        self.port = self._read_port()
        self.measured = Measured(self.process.pid)

    def _read_port(self) -> int:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            found = re.search(r"http://[^:]+:(\d+)", line)
            if found:
                return int(found[1])
        raise RuntimeError("the server did not start")

    def memory_bytes(self) -> int:
        return int(psutil.Process(self.process.pid).memory_info().rss)

    def stop(self) -> None:
        self.measured.thaw()
        self.process.terminate()
        self.process.wait(timeout=10)


@contextmanager
def server(*arguments: str, environment: dict[str, str] | None = None) -> Iterator[Server]:
    with folder() as data:
        running = Server(data, *arguments, environment=environment)
        try:
            yield running
        finally:
            running.stop()
