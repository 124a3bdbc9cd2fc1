"""Redis or Valkey as the other side: a server with every change on disk before its answer, and a C client."""

import csv
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.harness.rounds import Sample
from bench.machine import Measured
from tests.services_redis import find_server

CLIENT = "redis-benchmark"
_STARTED_IN_S = 30.0


@dataclass(slots=True)
class Valkey(Measured):
    """A running server."""

    port: int
    process: "subprocess.Popen[bytes]"
    rates: dict[str, float] = field(default_factory=dict)
    """What each load came to last: the client counts requests, and a round is so many seconds."""

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def load_script(self, text: str) -> str:
        """The name under which the server has this script from now on."""
        return self.call("SCRIPT", "LOAD", text)

    def call(self, *words: str) -> str:
        """One command, and its answer as text."""
        ran = subprocess.run(
            ["redis-cli", "-p", str(self.port), *words], capture_output=True, check=True, text=True
        )
        return ran.stdout.strip()

    def load(
        self,
        command: Sequence[str],
        *,
        connections: int,
        seconds: float,
        pipeline: int = 1,
        keys: int = 4,
        weight: int = 1,
    ) -> Sample:
        """Run redis-benchmark with this command for about so long; `weight` messages in each request."""
        named = f"{connections} {pipeline} {' '.join(command)[:80]}"
        if named not in self.rates:
            self.rates[named] = self._run(command, connections, 0.3, pipeline, keys, 5_000.0)[0]
        with self.running():
            before = self.spent_s()
            rate, p50_ms, p99_ms, count = self._run(
                command, connections, seconds, pipeline, keys, self.rates[named]
            )
            spent = self.spent_s() - before
        self.rates[named] = rate
        return Sample(rate * weight, spent * 1e6 / (count * weight), p50_ms, p99_ms)

    def _run(
        self,
        command: Sequence[str],
        connections: int,
        seconds: float,
        pipeline: int,
        keys: int,
        expected: float,
    ) -> tuple[float, float, float, int]:
        count = max(int(expected * seconds), connections * pipeline)
        options = {"-p": self.port, "-c": connections, "-n": count, "-P": pipeline, "-r": keys}
        words = [str(word) for pair in options.items() for word in pair]
        with self.running():
            ran = subprocess.run(
                [CLIENT, *words, "--csv", *command], capture_output=True, check=True, text=True
            )
        rows = list(csv.DictReader(ran.stdout.splitlines()))
        if not rows or "error" in ran.stderr.lower():
            raise RuntimeError(f"{CLIENT}: {ran.stdout}{ran.stderr}")
        return (
            float(rows[0]["rps"]),
            float(rows[0]["p50_latency_ms"]),
            float(rows[0]["p99_latency_ms"]),
            count,
        )


@contextmanager
def valkey(place: Path, *options: str) -> Iterator[Valkey]:
    """A server that syncs every change before it answers, and does not rewrite its file meanwhile."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    given = {"bind": "127.0.0.1", "port": port, "dir": place, "appendonly": "yes", "appendfsync": "always",
             "save": "", "auto-aof-rewrite-percentage": 0}  # fmt: skip
    words = [str(word) for name, value in given.items() for word in (f"--{name}", value)]
    process = subprocess.Popen([find_server(), *words, *options], stdout=subprocess.DEVNULL)
    try:
        until_listening(port)
        yield Valkey(process.pid, port, process)
    finally:
        process.kill()  # A frozen process hears nothing else.
        process.wait()


def client_installed() -> None:
    """Ends the run where the C client is missing."""
    if shutil.which(CLIENT) is None:
        raise SystemExit(f"{CLIENT} is missing: sh scripts/debian.sh redis-tools {CLIENT}")


def until_listening(port: int) -> None:
    end = time.monotonic() + _STARTED_IN_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.02)
        else:
            return
