"""`python -m bench.enqueue [SECONDS] [ROUNDS]`: one caller enqueues one job after the other.

DriftQ over HTTP and in process, beside Huey on SQLite (with its fsync, from the venv of the peers) and a loop
that writes and syncs a file. Rounds alternate, so that a busy host slows all of them.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import driftq
from bench.machine import folder, server

ROOT = Path(__file__).parents[1]
PEERS = ROOT / ".venv-peers" / "bin" / "python"
_HUEY = """
import sys, time, json
from huey import SqliteHuey
huey = SqliteHuey("bench", filename=sys.argv[1], fsync=True, results=False)
@huey.task()
def nothing(number): pass
end, done, cpu = time.perf_counter() + float(sys.argv[2]), 0, time.process_time()
while time.perf_counter() < end:
    nothing(done); done += 1
print(json.dumps({"done": done, "cpu_s": time.process_time() - cpu}))
"""


def per_second(call: Callable[[int], object], seconds: float) -> float:
    for number in range(50):
        call(number)
    start, done = time.perf_counter(), 0
    while (took := time.perf_counter() - start) < seconds:
        call(done)
        done += 1
    return done / took


def bare(path: Path, seconds: float) -> float:
    """A loop that writes 200 bytes and syncs them."""
    octets = b"x" * 200
    file = os.open(path, os.O_CREAT | os.O_WRONLY)
    try:
        os.posix_fallocate(file, 0, 64 << 20)
        os.fsync(file)

        def write(_: int) -> None:
            os.write(file, octets)
            os.fdatasync(file)

        return per_second(write, seconds)
    finally:
        os.close(file)


def huey(path: Path, seconds: float) -> float:
    said = subprocess.run(
        [PEERS, "-c", _HUEY, str(path), str(seconds)], check=True, capture_output=True, text=True
    ).stdout
    return float(json.loads(said)["done"]) / seconds


def over_http(_: Path, seconds: float) -> float:
    with server() as running, driftq.Client(f"http://127.0.0.1:{running.port}") as client:
        return per_second(lambda number: client.jobs.enqueue("bench", "nothing", number), seconds)


def in_process(path: Path, seconds: float) -> float:
    with driftq.open(path) as client:
        return per_second(lambda number: client.jobs.enqueue("bench", "nothing", number), seconds)


RUNS = {"bare loop": bare, "Huey on SQLite": huey, "DriftQ over HTTP": over_http, "driftq.open": in_process}


def main() -> int:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 2.0
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    found: dict[str, list[float]] = {name: [] for name in RUNS}
    with folder() as data:
        for number in range(rounds):
            for name, run in RUNS.items():
                found[name].append(run(Path(data, f"{number}-{name.replace(' ', '-')}"), seconds))
    peer = statistics.median(found["Huey on SQLite"])
    for name, rates in found.items():
        each = " ".join(f"{rate:,.0f}" for rate in rates)
        middle = statistics.median(rates)
        print(f"{name:18} {middle:8,.0f}/s  {middle / peer:.2f}x Huey   ({each})")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
