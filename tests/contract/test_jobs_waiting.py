"""Workers that wait for jobs, workers that go away, and many jobs settled in one request."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.contract.job_queue import Queue
from tests.contract.serving import Server


@pytest.fixture
def queue(server: Server) -> Queue:
    return Queue(server)


def waiting_claim(server: Server, queue: Queue, wait_ms: int) -> socket.socket:
    """A claim that waits on a connection of its own."""
    body = json.dumps(
        {"queues": [queue.name], "owner": "gone", "lease_ms": 30_000, "max": 1, "wait_ms": wait_ms}
    )
    client = server.open()
    head = f"POST /v1/jobs/claim HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    client.sendall(head.encode() + body.encode())
    return client


def is_answered(client: socket.socket, within_s: float) -> bool:
    client.settimeout(within_s)
    try:
        return bool(client.recv(65_536))
    except TimeoutError:
        return False


@pytest.mark.clause("J5")
def test_a_claim_waits_for_work_and_gets_it_at_once(queue: Queue) -> None:
    with ThreadPoolExecutor(1) as threads:
        other = Queue(queue.server)
        other.name = queue.name
        other.server = Server(None)
        other.server.port = queue.server.port
        waiting = threads.submit(other.claim, 5, wait_ms=50_000)
        time.sleep(0.1)
        job_id = queue.enqueue()
        (job,) = waiting.result(40)  # Sooner than the claim would have ended by itself.
        assert job["job_id"] == job_id
        other.server.hang_up()


def test_a_claim_that_waited_in_vain_gets_nothing(queue: Queue) -> None:
    began = time.monotonic()
    assert queue.claim(wait_ms=200) == []
    assert time.monotonic() - began > 0.19
    assert queue.claim() == []


@pytest.mark.clause("J1")
@pytest.mark.parametrize("half", [True, False])
def test_no_job_is_lost_on_a_worker_that_went_away(queue: Queue, half: bool) -> None:
    client = waiting_claim(queue.server, queue, 20_000)
    assert not is_answered(client, 0.1)
    if half:
        client.shutdown(socket.SHUT_WR)
        assert not is_answered(client, 0.2)  # Closed without an answer.
    else:
        client.close()
        time.sleep(0.1)
    queue.enqueue()
    (job,) = queue.claim(wait_ms=1_000)
    assert job["attempt"] == 1
    client.close()


def test_waiting_workers_are_let_go_when_the_server_stops(tmp_path: Path) -> None:
    server = Server(tmp_path / "log").start()
    queue = Queue(server)
    began = time.monotonic()
    client = waiting_claim(server, queue, 60_000)
    assert not is_answered(client, 0.1)
    code, errors = server.terminate()
    assert (code, "Traceback" in errors) == (0, False)
    assert time.monotonic() - began < 59, "the claim would have ended by itself"
    with client:
        assert b'{"jobs":[]}' in client.recv(65_536)


@pytest.mark.clause("J5", "J1")
def test_many_workers_at_once_get_disjoint_jobs(queue: Queue) -> None:
    count, workers = 200, 8
    for number in range(count):
        queue.enqueue(number)
    lock = threading.Lock()
    seen: list[int] = []

    def work(name: str) -> None:
        server = Server(None)
        server.port = queue.server.port
        while True:
            body = {"queues": [queue.name], "owner": name, "lease_ms": 30_000, "max": 7}
            jobs = server.post("/v1/jobs/claim", body).json["jobs"]
            if not jobs:
                break
            with lock:
                seen.extend(job["payload"] for job in jobs)
            results = [
                {"job_id": job["job_id"], "token": job["token"], "outcome": "complete"} for job in jobs
            ]
            answer = server.post("/v1/jobs/settle", {"owner": name, "results": results})
            assert answer.json["results"] == [{"status": "settled"}] * len(jobs)
        server.hang_up()

    with ThreadPoolExecutor(workers) as threads:
        for done in [threads.submit(work, f"w{number}") for number in range(workers)]:
            done.result(30)
    assert sorted(seen) == list(range(count))


@pytest.mark.clause("J7")
def test_each_result_of_a_batch_stands_for_itself(queue: Queue) -> None:
    for _ in range(3):
        queue.enqueue(max_retries=0)
    one, two, three = queue.claim(3)

    def result(job: dict[str, Any], **fields: Any) -> dict[str, Any]:
        return {"job_id": job["job_id"], "token": job["token"], "outcome": "complete"} | fields

    results = [
        result(one, result=[1, 2]),
        result(two, outcome="fail", error="no"),
        result(three, token=three["token"] + 99),
        result(three, job_id="job-99999999"),
        result(three, job_id="nonsense"),
        result(three, outcome="lost"),
        result(three, outcome="fail"),
        result(three, result=1, outcome="fail", error="e"),
        "nonsense",
        result(one),
    ]
    answer = queue.server.post("/v1/jobs/settle", {"owner": "w", "results": results})
    assert answer.status == 200
    settled = {"status": "settled"}
    outcomes = answer.json["results"]
    assert outcomes[:2] == [settled, settled]
    assert [outcome["error"] for outcome in outcomes[2:9]] == [
        "FAILED_PRECONDITION",
        "NOT_FOUND",
        "NOT_FOUND",
        "INVALID_ARGUMENT",
        "INVALID_ARGUMENT",
        "INVALID_ARGUMENT",
        "INVALID_ARGUMENT",
    ]
    assert outcomes[2]["reason"] == "stale_lease"
    assert outcomes[9] == settled  # Said twice.
    assert queue.show(one["job_id"])["result"] == [1, 2]
    assert queue.show(two["job_id"])["state"] == "dead"
    assert queue.show(three["job_id"])["state"] == "in_flight"
    queue.server.post("/v1/jobs/settle", {"results": []}).refused(400, "INVALID_ARGUMENT")
    assert queue.server.post("/v1/jobs/settle", {"owner": "w", "results": []}).json == {"results": []}


@pytest.fixture
def restartable(tmp_path: Path) -> Iterator[Server]:
    with Server(tmp_path / "log") as running:
        yield running


@pytest.mark.clause("J1", "J7", "J11", "W3")
def test_a_restart_keeps_everything(restartable: Server) -> None:
    queue = Queue(restartable)
    done, failed, held, ready = (queue.enqueue(n, idempotency_key=f"k{n}") for n in range(4))
    later = queue.enqueue("later", run_at="2100-01-01T00:00:00Z")
    jobs = queue.claim(3)
    assert [job["job_id"] for job in jobs] == [done, failed, held]
    assert queue.do("complete", jobs[0], result="yes").status == 204
    assert queue.do("fail", jobs[1], error="no", retryable=False).status == 204
    before = [queue.show(job_id) for job_id in (done, failed, held, ready, later)]
    restartable.kill()
    restartable.start()
    assert [queue.show(job_id) for job_id in (done, failed, held, ready, later)] == before
    assert queue.ask(0, idempotency_key="k0").json["job_id"] == done
    assert queue.do("heartbeat", jobs[2]).status == 204
    assert queue.do("complete", jobs[2]).status == 204
    assert queue.do("complete", jobs[0]).status == 204
    (job,) = queue.claim(10)
    assert job["job_id"] == ready
    assert job["token"] > max(old["token"] for old in jobs)
