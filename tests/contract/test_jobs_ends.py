"""GET /v1/jobs/{id}?wait_ms=: the reply comes with the end of the job, whatever ends it."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.contract.job_queue import Queue
from tests.contract.serving import Server
from tests.contract.test_jobs_waiting import is_answered

LONG_MS = 60_000


@pytest.fixture
def queue(server: Server) -> Queue:
    return Queue(server)


def awaiting(server: Server, job_id: str, wait_ms: int = LONG_MS) -> socket.socket:
    """A request on a connection of its own that waits for the end of a job."""
    client = server.open()
    client.sendall(f"GET /v1/jobs/{job_id}?wait_ms={wait_ms} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    return client


def view(client: socket.socket) -> dict[str, Any]:
    """What it is answered, within much less than it would wait."""
    client.settimeout(30)
    answer = client.recv(65_536)
    client.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), answer
    return dict(json.loads(body))


def complete(queue: Queue, job: dict[str, Any]) -> None:
    assert queue.do("complete", job, result={"sum": 3}).status == 204


def give_up(queue: Queue, job: dict[str, Any]) -> None:
    assert queue.do("fail", job, error="ValueError: no", retryable=False).status == 204


def cancel(queue: Queue, job: dict[str, Any]) -> None:
    assert queue.move("cancel", job["job_id"]).status == 200


@pytest.mark.clause("J16")
@pytest.mark.parametrize(
    ("ending", "state", "error"),
    [(complete, "succeeded", None), (give_up, "dead", "ValueError: no"), (cancel, "dead", "cancelled")],
)
def test_the_reply_comes_with_the_end(
    queue: Queue, ending: Callable[[Queue, dict[str, Any]], None], state: str, error: str | None
) -> None:
    job_id = queue.enqueue()
    (job,) = queue.claim()
    clients = [awaiting(queue.server, job_id) for _ in range(3)]
    assert not is_answered(clients[0], 0.2)
    ending(queue, job)
    for client in clients:
        shown = view(client)
        assert (shown["state"], shown.get("error")) == (state, error)
        assert shown.get("result") == ({"sum": 3} if state == "succeeded" else None)


@pytest.mark.clause("J16", "J11")
@pytest.mark.parametrize("fields", [{"lease_ms": 300}, {"timeout_ms": 300}])
def test_the_end_that_the_server_decides_is_an_end_too(queue: Queue, fields: dict[str, int]) -> None:
    """The lease or the execution time of the last attempt is over, and no request says so."""
    timeout = {name: value for name, value in fields.items() if name == "timeout_ms"}
    job_id = queue.enqueue(max_retries=0, **timeout)
    queue.claim(lease_ms=fields.get("lease_ms", LONG_MS))
    shown = view(awaiting(queue.server, job_id))
    expected = "lease_ended" if "lease_ms" in fields else "execution_timeout"
    assert (shown["state"], shown["error"]) == ("dead", expected)


@pytest.mark.clause("J16")
def test_a_failed_attempt_that_is_retried_is_no_end(queue: Queue) -> None:
    job_id = queue.enqueue(retry={"base_ms": 0, "cap_ms": 0})
    client = awaiting(queue.server, job_id)
    (job,) = queue.claim()
    assert queue.do("fail", job, error="boom").status == 204
    assert not is_answered(client, 0.2)
    (job,) = queue.claim(wait_ms=5_000)
    complete(queue, job)
    assert view(client)["state"] == "succeeded"


@pytest.mark.clause("J16")
def test_an_ended_job_is_shown_at_once_and_a_waiting_one_when_the_time_is_over(queue: Queue) -> None:
    done, waits = queue.enqueue(), queue.enqueue(run_at="2100-01-01T00:00:00Z")
    (job,) = queue.claim()
    complete(queue, job)
    began = time.monotonic()
    assert view(awaiting(queue.server, done))["state"] == "succeeded"
    assert view(awaiting(queue.server, waits, 200))["state"] == "scheduled"
    assert 0.19 < time.monotonic() - began < 59, "the second waited, and not for ever"
    queue.server.get("/v1/jobs/job-99999999?wait_ms=50000").refused(404, "NOT_FOUND")
    queue.server.get(f"/v1/jobs/{done}?wait_ms=60001").refused(400, "INVALID_ARGUMENT")
    queue.server.get(f"/v1/jobs/{done}?wait=1").refused(400, "INVALID_ARGUMENT")


@pytest.mark.clause("J16")
def test_a_client_that_went_away_is_no_longer_waited_for(queue: Queue) -> None:
    job_id = queue.enqueue()
    gone, stays = awaiting(queue.server, job_id), awaiting(queue.server, job_id)
    assert not is_answered(gone, 0.1)
    gone.close()
    (job,) = queue.claim()
    complete(queue, job)
    assert view(stays)["state"] == "succeeded"


@pytest.mark.clause("J16", "H6")
def test_those_who_wait_are_answered_when_the_server_stops(tmp_path: Path) -> None:
    server = Server(tmp_path / "log").start()
    job_id = Queue(server).enqueue()
    client = awaiting(server, job_id)
    assert not is_answered(client, 0.1)
    code, errors = server.terminate()
    assert (code, "Traceback" in errors) == (0, False)
    with client:
        client.settimeout(10)
        assert b"HTTP/1.1" in client.recv(65_536)


@pytest.mark.clause("J16")
def test_many_wait_for_many_jobs_and_each_gets_its_own(queue: Queue) -> None:
    jobs = [queue.enqueue(number) for number in range(40)]
    clients = [awaiting(queue.server, job_id) for job_id in jobs]
    assert not is_answered(clients[0], 0.1)
    for job in queue.claim(40):
        assert queue.do("complete", job, result=job["payload"]).status == 204
    with ThreadPoolExecutor(8) as threads:
        assert [shown["result"] for shown in threads.map(view, clients)] == list(range(40))
