"""How large jobs and answers may be, what is refused, and lists."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.job_queue import Queue
from tests.contract.serving import Server

MIB = 1 << 20


@pytest.fixture
def queue(server: Server) -> Queue:
    return Queue(server)


@pytest.mark.clause("J11", "H2")
def test_a_payload_may_be_a_mebibyte(queue: Queue) -> None:
    text = "x" * (MIB - 2)
    job_id = queue.enqueue(text)
    queue.ask(text + "x").refused(413, "PAYLOAD_TOO_LARGE")
    (job,) = queue.claim()
    assert (job["job_id"], job["payload"]) == (job_id, text)
    queue.do("complete", job, result=text + "x").refused(413, "PAYLOAD_TOO_LARGE")
    assert queue.do("complete", job, result=text).status == 204


def test_an_answer_has_a_bounded_size_and_the_rest_is_not_claimed(queue: Queue) -> None:
    for _ in range(6):
        queue.enqueue("x" * (MIB - 2))
    assert len(queue.claim(6)) < 6
    page = queue.server.get("/v1/jobs", queue=queue.name).json
    assert 1 <= len(page["jobs"]) < 6
    assert page["after"] == page["jobs"][-1]["job_id"]
    assert len(queue.claim(6)) >= 2


@pytest.mark.clause("E3", "H2")
@pytest.mark.parametrize(
    "wrong",
    [
        {"priority": 10},
        {"priority": -1},
        {"queue": ""},
        {"task": "x" * 256},
        {"queue": "a\nb"},
        {"max_retries": 1_001},
        {"max_retries": -1},
        {"timeout_ms": 0},
        {"run_at": "tomorrow"},
        {"run_at": "2030-01-01T00:00:00"},
        {"run_at": "9999-12-31T23:59:59-23:59"},
        {"retries": 3},
    ],
)
def test_what_is_refused(queue: Queue, wrong: dict[str, Any]) -> None:
    queue.ask(**wrong).refused(400, "INVALID_ARGUMENT")
    queue.ask(priority=9, max_retries=1_000, timeout_ms=1, task="x" * 255)


@pytest.mark.clause("H2")
def test_a_payload_that_nobody_could_read_is_refused(queue: Queue) -> None:
    head = b'{"queue":"q","task":"t","payload":'
    for payload in (b'"\xff"', b"1e999", b"[1,]", b"", b'"\\ud800"', b"[" * 5_000 + b"]" * 5_000):
        queue.server.call("POST", "/v1/jobs", head + payload + b"}").refused(400, "INVALID_ARGUMENT")
    assert queue.server.call("POST", "/v1/jobs", head + b"null}").status == 201


@pytest.mark.clause("H2")
@pytest.mark.parametrize("name", ["job-999999", "job-", "job-01", "7", "job-" + "9" * 5_000, "%E2%82%AC"])
def test_there_is_no_such_job(queue: Queue, name: str) -> None:
    queue.server.get(f"/v1/jobs/{name}").refused(404, "NOT_FOUND")
    for verb, body in (("cancel", None), ("requeue", None), ("complete", {"token": 1})):
        queue.server.post(f"/v1/jobs/{name}/{verb}", body).refused(404, "NOT_FOUND")
    queue.server.get(f"/v1/jobs/{name}/complete").refused(405, "METHOD_NOT_ALLOWED")


def test_lists_come_in_parts_by_queue_and_state(queue: Queue) -> None:
    jobs = [queue.enqueue(number) for number in range(5)]
    later = queue.enqueue(run_at="2100-01-01T00:00:00Z")
    (held,) = queue.claim()

    def listed(**query: Any) -> list[str]:
        answer = queue.server.get("/v1/jobs", queue=queue.name, **query)
        assert answer.status == 200, answer
        return [job["job_id"] for job in answer.json["jobs"]]

    assert listed() == [*jobs, later]
    assert listed(state="ready") == jobs[1:]
    assert listed(state="scheduled") == [later]
    assert listed(state="in_flight") == [held["job_id"]]
    assert listed(state="dead") == listed(state="succeeded") == []
    assert listed(limit=2) == jobs[:2]
    assert listed(limit=2, after=jobs[1]) == jobs[2:4]
    assert listed(state="ready", after=jobs[3]) == jobs[4:]
    page = queue.server.get("/v1/jobs", queue=queue.name, limit=6).json
    assert "after" not in page
    for wrong in ({"state": "lost"}, {"limit": 0}, {"after": "x"}, {"colour": "red"}):
        queue.server.get("/v1/jobs", **wrong).refused(400, "INVALID_ARGUMENT")
    assert queue.server.get("/v1/jobs", queue="nowhere").json == {"jobs": []}
