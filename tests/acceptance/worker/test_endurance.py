"""Handlers that outlast their leases, and a server that goes away in the middle of the work."""

import threading
import time
from collections import Counter
from pathlib import Path
from typing import Literal

import pytest

import driftq
from tests.harness import ServerProcess

PATIENCE_S = 120.0
OUTLASTING_MS = 20_000
"""A lease that is longer than a restart, also where others keep the machine busy."""
UNFINISHED: tuple[Literal["in_flight", "ready", "scheduled"], ...] = ("in_flight", "ready", "scheduled")


@pytest.mark.clause("A8", "A7")
def test_a_handler_five_times_as_long_as_its_lease_runs_once(tmp_path: Path) -> None:
    lease_ms = 2_000  # Others keep the machine busy: what is shown is five leases, not how short they are.
    runs: list[int] = []
    done = threading.Event()
    with (
        ServerProcess(tmp_path / "data") as server,
        driftq.Client(f"http://127.0.0.1:{server.port}") as client,
        driftq.Client(f"http://127.0.0.1:{server.port}") as other,
    ):
        client.create_topic("orders")

        def busy(message: driftq.Message, context: driftq.Context) -> None:
            runs.append(context.attempt)
            end = time.monotonic() + 5 * lease_ms / 1000
            while time.monotonic() < end:
                pass  # Neither waits nor sleeps: heartbeats come from another thread.
            done.set()

        workers = [driftq.Worker(one, group="g", lease_ms=lease_ms) for one in (client, other)]
        for worker in workers:
            worker.on("orders", effect=driftq.Effect.IDEMPOTENT, concurrency=1)(busy)
            worker.start()
        client.produce_many("orders", ["first"])
        assert done.wait(PATIENCE_S)
        for worker in workers:
            worker.stop()
        assert runs == [1]
        assert sum(group.lag for group in client.topic("orders").groups) == 0


@pytest.mark.clause("J1", "J7")
def test_a_restart_in_the_middle_of_a_thousand_jobs_loses_and_doubles_none(tmp_path: Path) -> None:
    count = 1_000
    done: Counter[int] = Counter()
    some = threading.Event()
    with ServerProcess(tmp_path / "data") as server:
        url = f"http://127.0.0.1:{server.port}"
        clients = [driftq.Client(url) for _ in range(4)]
        workers = [
            driftq.Jobs(client, lease_ms=OUTLASTING_MS, concurrency=2, prefetch=20) for client in clients
        ]
        for jobs in workers:

            @jobs.task(queue="mail")
            def send(number: int) -> None:
                time.sleep(0.002)
                done[number] += 1  # One step of the interpreter for distinct keys: each job has its own.
                if len(done) > count // 4:
                    some.set()

        threads = [
            threading.Thread(target=lambda part=part: [send.enqueue(number=n) for n in range(part, count, 8)])
            for part in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for jobs in workers:
            jobs.start()
        assert some.wait(PATIENCE_S)
        server.restart()
        end = time.monotonic() + PATIENCE_S
        while any(clients[0].jobs.list(state=state, limit=1) for state in UNFINISHED):
            assert time.monotonic() < end, "jobs are stuck"
            time.sleep(0.05)
        for jobs in workers:
            jobs.stop()
        assert len(done) == count
        assert set(done.values()) == {1}
        assert not clients[0].jobs.list(state="dead", limit=1)
        for client in clients:
            client.close()


@pytest.mark.clause("G4", "I8")
def test_a_worker_goes_on_when_the_server_comes_back(tmp_path: Path) -> None:
    count = 200
    settled: Counter[str] = Counter()
    some, all_done = threading.Event(), threading.Event()

    def note(one: driftq.Settled) -> None:
        settled[one.message.value] += 1
        if len(settled) == count // 4:
            some.set()
        if len(settled) == count:
            all_done.set()

    runs: Counter[str] = Counter()
    with (
        ServerProcess(tmp_path / "data") as server,
        driftq.Client(f"http://127.0.0.1:{server.port}") as client,
    ):
        client.create_topic("orders", partitions=4)
        client.produce_many("orders", [f"m{n}" for n in range(count)], key=lambda value: value)
        worker = driftq.Worker(client, group="g", lease_ms=OUTLASTING_MS, on_settled=note)

        @worker.on("orders", effect=driftq.Effect.IDEMPOTENT, concurrency=4)
        def handle(message: driftq.Message, context: driftq.Context) -> None:
            time.sleep(0.005)
            runs[message.value] += 1

        with worker:
            assert some.wait(PATIENCE_S)
            server.restart()
            assert all_done.wait(PATIENCE_S)
    assert set(runs.values()) == {1}
