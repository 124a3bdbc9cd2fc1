"""No-op jobs with one Python worker process: DriftQ beside other queues for Python, in rounds by turns.

The jobs are enqueued first, then worked off. Of the others the time from the first run to the last counts; of
DriftQ the time until the end of every job is on disk as well. Each queue has as many jobs as it works off in
a second or two.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from bench import jobs
from bench.harness.figure import Figure
from bench.harness.plan import plan
from bench.harness.rounds import Sample, Side, interleave
from bench.harness.valkey import Valkey, valkey
from bench.machine import folder, server
from bench.peers.place import PEERS, ROOT
from tests.services_postgres import PostgresServer

OURS_COUNT = (10_000, 2_000)
OURS = "DriftQ"
_WORKED_IN_S = 120.0


@dataclass(frozen=True, slots=True)
class Peer:
    """How a worker of this queue is started, how many jobs it gets, and where they are kept."""

    name: str
    module: str
    worker: tuple[str, ...]
    count: int
    on_postgres: bool = False


OTHERS = (
    Peer(
        "Celery",
        "celery_app",
        ("celery", "-A", "bench.peers.celery_app", "worker", "--pool", "solo", "--loglevel", "ERROR",
         "--without-gossip", "--without-mingle", "--without-heartbeat"),
        500,
    ),
    Peer(
        "Dramatiq",
        "dramatiq_app",
        ("dramatiq", "bench.peers.dramatiq_app", "--processes", "1", "--threads", "8"),
        2000,
    ),
    Peer(
        "arq",
        "arq_app",
        ("arq", "bench.peers.arq_app.WorkerSettings"),
        600,
    ),
    Peer(
        "Huey",
        "huey_app",
        ("huey.bin.huey_consumer", "bench.peers.huey_app.huey", "-k", "thread", "-w", "4"),
        1500,
    ),
    Peer(
        "Procrastinate",
        "procrastinate_app",
        ("procrastinate", "--app", "bench.peers.procrastinate_app.app", "worker", "--concurrency", "10"),
        500,
        on_postgres=True,
    ),
    Peer(
        "RQ",
        "rq_app",
        ("rq.cli", "worker", "--worker-class", "rq.worker.SimpleWorker", "bench"),
        150,
    ),
)  # fmt: skip


def beside_others() -> list[Figure]:
    if not (PEERS / "bin" / "python").exists():
        raise SystemExit("the other queues are not installed: run `make bench ARGS=jobs-peers`")
    with folder() as place, valkey(place) as redis, postgres() as postgres_url:
        sides = [Side(OURS, _ours)]
        for peer in OTHERS:
            run = partial(measure, peer, postgres_url if peer.on_postgres else redis.url, place)
            sides.append(Side(_full_name(peer), run if peer.on_postgres else _emptied(redis, run)))
        found = interleave(sides)
    figures = [found.figure("no-op jobs, one worker process, DriftQ", OURS, "jobs/s")]
    for peer in OTHERS:
        name = _full_name(peer)
        figures.append(
            replace(
                found.figure(f"no-op jobs, one worker process, {name}", name, "jobs/s"),
                ratio_to=OURS,
                ratio=found.ratio(name, OURS, lambda sample: sample.rate),
            )
        )
    return figures


def _emptied(redis: Valkey, run: Callable[[], Sample]) -> Callable[[], Sample]:
    """Without what the queues before left there."""

    def emptied() -> Sample:
        redis.call("FLUSHALL")
        return run()

    return emptied


def _ours() -> Sample:
    with server() as running:
        return Sample(jobs.measure(f"http://127.0.0.1:{running.port}", plan().pick(*OURS_COUNT)).worked)


def measure(peer: Peer, url: str, place: Path) -> Sample:
    """Jobs a second. Raises RuntimeError when the peer does not finish."""
    count = plan().pick(peer.count, max(20, peer.count // 10))
    result = place / f"{peer.module}-{time.monotonic_ns()}.result"
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
        enqueue = [*python, "bench.peers.enqueue", peer.module]
        if subprocess.run(enqueue, env=environment, stdout=log, stderr=log, check=False).returncode:
            raise RuntimeError(_last_line(said))
        worker = subprocess.Popen(
            [*python, *peer.worker], env=environment, stdout=log, stderr=log, start_new_session=True
        )
        try:
            end = time.monotonic() + _WORKED_IN_S
            while not result.exists():
                if worker.poll() is not None or time.monotonic() > end:
                    raise RuntimeError(f"{peer.name}: {_last_line(said)}")
                time.sleep(0.02)
        finally:
            if worker.poll() is None:
                os.killpg(worker.pid, signal.SIGKILL)
            worker.wait()
    return Sample((count - 1) / float(result.read_text()))


def _full_name(peer: Peer) -> str:
    """With its version."""
    found = list(PEERS.glob(f"lib/python*/site-packages/{peer.name.lower()}-*.dist-info"))
    version = found[0].name.removesuffix(".dist-info").rpartition("-")[2] if found else ""
    return f"{peer.name} {version}".strip()


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1][:200] if lines else "it said nothing"


@contextmanager
def postgres() -> Iterator[str]:
    running = PostgresServer(fsync=True)
    try:
        yield running.url
    finally:
        running.remove()
