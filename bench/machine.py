"""The real server as a process, and a folder on the disk that is measured."""

import gc
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
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


class Server:
    """`driftq serve` on a free port."""

    def __init__(self, data: Path, *arguments: str, environment: dict[str, str] | None = None) -> None:
        command = [sys.executable, "-m", "driftq", "serve", "--port", "0", "--data", str(data), *arguments]
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **(environment or {})},
        )
        self.port = self._read_port()

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
