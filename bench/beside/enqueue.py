"""One job enqueued after the other, by the blocking client and in process, beside Huey on SQLite with fsync.

`python -m bench.beside.enqueue SIDE PLACE SECONDS` is one side in a process of its own, as in a program:
`http` with a server's address, `open` with a folder. Huey's is `bench.peers.huey_sqlite`.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import driftq
from bench.harness.figure import Figure, at_least
from bench.harness.plan import plan
from bench.harness.rounds import Sample, Side, interleave
from bench.machine import Server, folder, server
from bench.peers.place import PEERS, ROOT

HTTP, OPEN, HUEY = "driftq.Client", "driftq.open", "Huey on SQLite, fsync"
AIMS = {HTTP: 0.7, OPEN: 1.0}


def enqueue() -> list[Figure]:
    with folder() as place, server() as running:
        ours = (sys.executable, "-m", "bench.beside.enqueue")
        theirs = (str(PEERS / "bin" / "python"), "-m", "bench.peers.huey_sqlite")
        url = f"http://127.0.0.1:{running.port}"
        found = interleave(
            [
                Side(HTTP, partial(_over_http, running, (*ours, "http", url))),
                Side(OPEN, partial(_run, (*ours, "open", str(place / "ours")))),
                Side(HUEY, partial(_run, (*theirs, str(place / "huey.db")))),
            ]
        )
    name = "sequential enqueue"
    return [
        *(
            found.figure(f"{name}, {side}", side, "jobs/s", ratio_to=HUEY, ratio_aim=at_least(aim))
            for side, aim in AIMS.items()
        ),
        found.figure(f"{name}, {HUEY}", HUEY, "jobs/s"),
    ]


def _over_http(running: Server, command: tuple[str, ...]) -> Sample:
    """The processor time is that of server and client, since Huey's caller does all the work itself."""
    with running.measured.running():
        before = running.measured.spent_s()
        sample = _run(command)
        spent = running.measured.spent_s() - before
    return Sample(sample.rate, (sample.cpu_us or 0.0) + spent * 1e6 / (sample.rate * plan().seconds))


def _run(command: tuple[str, ...]) -> Sample:
    """The process prints what it enqueued, the seconds and its processor time."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(
        [*command, str(plan().seconds)], cwd=ROOT, env=environment, capture_output=True, check=True, text=True
    )
    count, took, spent = ran.stdout.split()
    return Sample(int(count) / float(took), float(spent) * 1e6 / int(count))


def count_calls(call: Callable[[int], object], seconds: float) -> str:
    """Call until the time is up, after some calls that do not count."""
    for number in range(50):
        call(-number)
    began, spent, count = time.perf_counter(), time.process_time(), 0
    while (took := time.perf_counter() - began) < seconds:
        call(count)
        count += 1
    return f"{count} {took} {time.process_time() - spent}"


def main(side: str, place: str, seconds: str) -> None:
    client = driftq.Client(place) if side == "http" else driftq.open(Path(place))
    with client:
        print(
            count_calls(
                lambda number: client.jobs.enqueue("bench", "nothing", {"number": number}), float(seconds)
            )
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
