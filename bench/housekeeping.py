"""What housekeeping buys and costs: restarts, memory of what is kept, latency while it works."""

import json
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.harness.figure import Bound, Figure, at_most, below
from bench.harness.plan import plan
from bench.harness.rounds import Sample, Side, interleave
from bench.load import Load, answers_per_second, http_request, run_load
from bench.machine import Server, folder, server

SECONDS = 12.0
VALUE = "x" * 200
BATCH = 500
FULL, EMPTY = "filled folder", "empty folder"
IDLE_S = 1.0


def _ask(port: int, method: str, path: str, body: object = None) -> dict[str, object]:
    octets = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", octets, method=method)
    with urllib.request.urlopen(request) as answer:
        return dict(json.load(answer))


def _kept(port: int) -> int:
    view = _ask(port, "GET", "/v1/topics/kept")
    return int(view["partitions"][0]["messages"])  # type: ignore[index]


def _fill(port: int, count: int) -> None:
    """Produce until so many are kept, in batches: how they came makes no difference to a restart."""
    body = json.dumps({"messages": [{"topic": "kept", "value": VALUE}] * BATCH}).encode()
    request = http_request("/v1/produce/batch", body)
    while (missing := count - _kept(port)) > 0:
        answers_per_second(port, request, connections=4, seconds=min(20.0, max(0.2, missing / 200_000)))


@contextmanager
def _killed_under_load(data: Path, count: int) -> Iterator[tuple[int, int]]:
    """A folder with so many messages, whose server was killed under single-message load; its idle memory."""
    running = Server(data, "--fsync", "off")
    idle = running.memory_bytes()
    _ask(running.port, "POST", "/v1/topics", {"name": "kept"})
    _fill(running.port, count)
    single = http_request("/v1/produce", json.dumps({"topic": "kept", "value": VALUE}).encode())
    load = subprocess.Popen(
        [sys.executable, "-m", "bench.load", str(running.port), "64", "60"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    assert load.stdin is not None
    load.stdin.write(single)
    load.stdin.close()
    time.sleep(1.0 if plan().quick else 6.0)
    kept = _kept(running.port)
    running.process.kill()
    running.process.wait()
    load.wait()
    yield idle, kept


def _restart(count: int, aim: Bound) -> list[Figure]:
    """Starts after kill -9, by turns with starts on an empty folder."""
    memory: list[float] = []
    with folder() as data, folder() as empty, _killed_under_load(data, count) as (idle, kept):

        def start() -> Sample:
            with _started(data) as (running, took):
                found = _kept(running.port)
                memory.append((running.memory_bytes() - idle) / found)
            assert found >= kept, f"{kept} were kept, {found} are left"
            return Sample(took)

        def start_empty() -> Sample:
            with _started(empty) as (_, took):
                return Sample(took)

        found = interleave([Side(FULL, start), Side(EMPTY, start_empty)])
    name = f"process start to readyz after kill -9, {kept:,} messages"
    return [
        found.figure(name, FULL, "s", aim=aim, ratio_to=EMPTY),
        found.figure("process start to readyz, empty folder", EMPTY, "s"),
        Figure(f"memory of a kept message, {kept:,} messages", statistics.median(memory), "B", below(60)),
    ]


@contextmanager
def _started(data: Path) -> Iterator[tuple[Server, float]]:
    """A server that is killed again, and the seconds until it was ready."""
    began = time.perf_counter()
    running = Server(data)
    _ask(running.port, "GET", "/v1/readyz")
    took = time.perf_counter() - began
    try:
        yield running, took
    finally:
        running.process.kill()
        running.process.wait()


def restart() -> list[Figure]:
    """A restart after kill -9 under single-message load, with a million messages kept."""
    return _restart(plan().pick(1_000_000, 50_000), at_most(0.8))


def restart_large() -> list[Figure]:
    """The same with ten million."""
    return _restart(10_000_000, at_most(2))


def idle() -> list[Figure]:
    """Resident memory of all processes of a server that has nothing to do."""

    def measure() -> Sample:
        with server() as running:
            time.sleep(IDLE_S)
            return Sample(sum(one.memory_info().rss for one in running.measured.family()) / 1e6)

    found = interleave([Side(EMPTY, measure)])
    return [found.figure("resident memory of an idle server", EMPTY, "MB", aim=at_most(45))]


def latency() -> list[Figure]:
    """Durable single produces while segments of 16 MiB are sealed and folded all the time, and without."""
    plain = _singles({"housekeeping": False})
    worked = _singles({"housekeeping": True})
    ratio = worked.p999_ms / plain.p999_ms
    return [
        Figure("produce p99.9 without housekeeping", plain.p999_ms, "ms"),
        Figure("produce p99.9 with housekeeping", worked.p999_ms, "ms"),
        Figure("… as a multiple", ratio, "×", at_most(3)),
    ]


def tables() -> list[Figure]:
    """The same load on a topic that is kept as a table, and on one that is not."""
    off = _singles({"housekeeping": True}, table=False)
    on = _singles({"housekeeping": True}, table=True)
    ratio = on.p99_ms / off.p99_ms
    return [
        Figure("produce p99 with tables off", off.p99_ms, "ms"),
        Figure("produce p99 with tables on", on.p99_ms, "ms"),
        Figure("… as a multiple", ratio, "×", at_most(1.5)),
    ]


def _singles(options: dict[str, object], *, table: bool = False) -> Load:
    with folder() as data:
        options = {"segment_bytes": 16 << 20, "data": str(data)} | options
        process = subprocess.Popen(
            [sys.executable, "-m", "bench.serving", json.dumps(options)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        port = int(process.stdout.readline())
        try:
            _ask(port, "POST", "/v1/topics", {"name": "kept", "table": table})
            single = http_request("/v1/produce", json.dumps({"topic": "kept", "value": VALUE}).encode())
            run_load(port, single, connections=32, seconds=2.0)
            return run_load(port, single, connections=32, seconds=SECONDS)
        finally:
            process.terminate()
            process.wait()
            process.stdout.close()
