"""wrk, an HTTP load generator in C, against a server of ours: it takes a fraction of the server's work."""

import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from bench.harness.rounds import Sample
from bench.machine import Server

_SCRIPTS = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Produces:
    """The produces that `produce.lua` sends; `batch` 1 is a single one."""

    topic: str
    value_bytes: int = 200
    batch: int = 1
    keyed: bool = False
    """Each message with an idempotency key of its own."""

    script = "produce.lua"

    def arguments(self) -> list[object]:
        return [self.topic, self.value_bytes, self.batch, int(self.keyed), time.time_ns()]


@dataclass(frozen=True, slots=True)
class Appends:
    """The appends that `events.lua` sends, one event each."""

    payload_bytes: int = 200
    batch = 1
    script = "events.lua"

    def arguments(self) -> list[object]:
        return [self.payload_bytes, time.time_ns()]


def load(running: Server, requests: Produces | Appends, *, connections: int, seconds: float) -> Sample:
    """So many connections, each with one request under way; the rate is messages per second."""
    with running.measured.running():
        before = running.measured.spent_s()
        count, took_us, p50_us, p99_us = _run(running.port, requests, connections, seconds)
        spent = running.measured.spent_s() - before
    messages = count * requests.batch
    return Sample(messages * 1e6 / took_us, spent * 1e6 / messages, p50_us / 1000, p99_us / 1000)


def _run(
    port: int, requests: Produces | Appends, connections: int, seconds: float
) -> tuple[int, int, int, int]:
    if shutil.which("wrk") is None:
        raise SystemExit("wrk is missing: sh scripts/debian.sh wrk wrk")
    options = ["-t1", f"-c{connections}", "-d1h", "--timeout", "20s", "-s", str(_SCRIPTS / requests.script)]
    command = ["wrk", *options, f"http://127.0.0.1:{port}", "--", *map(str, requests.arguments())]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()  # It has made its requests and begins.
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)  # Its own clock knows whole seconds only.
        said, _ = process.communicate(timeout=60)
    line = next((one for one in said.splitlines() if one.startswith("driftq ")), "")
    if not line:
        raise RuntimeError(f"wrk: {said}")
    count, took_us, p50_us, p99_us, errors = map(int, line.split()[1:])
    if errors or not count:
        raise RuntimeError(f"{errors} of wrk's requests failed: {said}")
    return count, took_us, p50_us, p99_us
