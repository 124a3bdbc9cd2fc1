"""Callers that enqueue batches and wait for results, while the server is killed again and again."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

import pytest

import driftq
from driftq.registry.processed_jobs import ProcessedJobs
from driftq.sql import open_database
from tests.harness import ServerProcess
from tests.support.waiting import wait_until

BATCHES = 12
JOBS = 25
PATIENCE_S = 120.0


@pytest.mark.clause("J16", "J17", "J1", "W3")
def test_every_result_arrives_whatever_is_killed_on_the_way(server: ServerProcess) -> None:
    options = driftq.ClientOptions(timeout_s=PATIENCE_S)
    with driftq.Client(f"http://127.0.0.1:{server.port}", options=options) as client:
        jobs = driftq.Jobs(client, lease_ms=5_000)
        ran: list[int] = []

        @jobs.task(queue="sums", retry=driftq.RetryPolicy(max_attempts=50, base=0.05, cap=0.2))
        def double(number: int) -> int:
            ran.append(number)
            return 2 * number

        handles: list[driftq.JobHandle] = []
        enqueued = threading.Semaphore(0)

        def enqueue() -> None:
            for batch in range(BATCHES):
                numbers = range(batch * JOBS, (batch + 1) * JOBS)
                handles.extend(
                    double.enqueue_many(
                        [(number,) for number in numbers],
                        idempotency_keys=[f"n-{number}" for number in numbers],
                    )
                )
                enqueued.release()

        producer = threading.Thread(target=enqueue, daemon=True)
        with jobs:
            producer.start()
            for _ in range(3):
                for _ in range(BATCHES // 4):
                    assert enqueued.acquire(timeout=PATIENCE_S)
                server.restart()
            producer.join(PATIENCE_S)
            results = [handle.result(timeout=PATIENCE_S) for handle in handles]
        assert results == [2 * number for number in range(BATCHES * JOBS)]
        assert len({handle.id for handle in handles}) == BATCHES * JOBS, "no batch was stored twice"
        assert set(ran) == set(range(BATCHES * JOBS))
        server.restart()
        assert [handle.result(timeout=PATIENCE_S) for handle in handles] == results, "they are on disk"


@pytest.mark.clause("J16", "W3")
def test_whoever_waits_goes_on_waiting_at_the_next_server(server: ServerProcess) -> None:
    options = driftq.ClientOptions(timeout_s=PATIENCE_S)
    with driftq.Client(f"http://127.0.0.1:{server.port}", options=options) as client:
        job_id = client.jobs.enqueue("mail", "send", None, max_retries=0).job_id
        (job,) = client.jobs.claim(["mail"], owner="w", lease_ms=60_000)
        views: list[str] = []
        waiting = threading.Thread(
            target=lambda: views.append(str(client.jobs.get(job_id, wait_ms=int(PATIENCE_S * 1000)).state)),
            daemon=True,
        )
        waiting.start()
        server.restart()
        assert waiting.is_alive()
        client.jobs.complete(job, result="sent")
        waiting.join(PATIENCE_S)
        assert views == ["succeeded"]


@pytest.mark.clause("J12", "J12d", "J23")
def test_a_server_removes_processed_jobs_whose_time_is_over(tmp_path: Path) -> None:
    file = tmp_path / "data" / "pipeline" / "registry.db"
    file.parent.mkdir(parents=True)
    database = open_database(f"sqlite:///{file}")
    ProcessedJobs(database, scope="mail", ttl_ms=1).record("old")
    ProcessedJobs(database, scope="mail").record("new")
    database.close()

    def keys() -> list[str]:
        with sqlite3.connect(file) as looking:
            return [key for (key,) in looking.execute("SELECT job_key FROM processed_jobs ORDER BY job_key")]

    assert keys() == ["new", "old"]
    with ServerProcess(tmp_path / "data"):
        wait_until("the old row is gone", lambda: keys() == ["new"])
