"""Many jobs in one request: enqueued with a result for each, and requeued by a filter; metadata on jobs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.job_queue import Queue
from tests.contract.serving import Answer, Server


@pytest.fixture
def queue(server: Server) -> Queue:
    return Queue(server)


def batch(queue: Queue, *jobs: Any) -> list[dict[str, Any]]:
    answer = queue.server.post("/v1/jobs/batch", {"jobs": list(jobs)})
    assert answer.status == 200, answer
    return list(answer.json["results"])


def job(queue: Queue, payload: Any = None, **fields: Any) -> dict[str, Any]:
    return {"queue": queue.name, "task": "send", "payload": payload} | fields


@pytest.mark.clause("J17")
def test_each_job_of_a_batch_has_a_result_of_its_own(queue: Queue) -> None:
    known = queue.enqueue("one", idempotency_key="k1")
    results = batch(
        queue,
        job(queue, 1),
        job(queue, "one", idempotency_key="k1"),
        job(queue, 2, priority=11),
        {"queue": queue.name},
        "nonsense",
        job(queue, 3, retry={"max_attempts": 2}, max_retries=1),
        job(queue, 4, run_at="2100-01-01T00:00:00Z"),
        job(queue, 5, idempotency_key="k5"),
        job(queue, "other", idempotency_key="k5"),
    )
    assert [result.get("error") for result in results[2:6]] == ["INVALID_ARGUMENT"] * 4
    assert all("message" in result for result in results[2:6])
    assert results[1] == {"job_id": known, "state": "ready", "duplicate": True}
    assert [result["state"] for result in results if "state" in result] == [
        "ready",
        "ready",
        "scheduled",
        "ready",
        "ready",
    ]
    assert results[8] == results[7] | {"duplicate": True, "payload_mismatch": True}
    assert [one["payload"] for one in queue.claim(10)] == ["one", 1, 5]


@pytest.mark.clause("J17")
def test_a_batch_may_be_empty_and_is_bounded(queue: Queue) -> None:
    assert batch(queue) == []
    queue.server.post("/v1/jobs/batch", {"jobs": 3}).refused(400, "INVALID_ARGUMENT")
    queue.server.post("/v1/jobs/batch", {"job": []}).refused(400, "INVALID_ARGUMENT")
    many = {"jobs": [1] * 100_001}
    queue.server.post("/v1/jobs/batch", many).refused(400, "INVALID_ARGUMENT")
    too_large = job(queue, "x" * (1 << 20))
    assert [result.get("error") for result in batch(queue, too_large, job(queue))] == [
        "PAYLOAD_TOO_LARGE",
        None,
    ]


@pytest.mark.clause("J22")
def test_metadata_is_kept_shown_and_claimed(queue: Queue) -> None:
    given = {"request": "r-7", "größe": "10 €"}
    job_id = queue.enqueue(metadata=given)
    plain = queue.enqueue()
    assert queue.show(job_id)["metadata"] == given
    assert "metadata" not in queue.show(plain)
    assert [one.get("metadata") for one in queue.claim(2)] == [given, None]


@pytest.mark.clause("J22")
@pytest.mark.parametrize(
    ("metadata", "status"),
    [
        ({"n": 1}, 400),
        ({f"name-{n}": "" for n in range(65)}, 400),
        ({"a\nb": "x"}, 400),
        ([], 400),
        ({"n": "x" * 8_192}, 413),
    ],
)
def test_metadata_is_small_and_text(queue: Queue, metadata: Any, status: int) -> None:
    assert queue.ask(metadata=metadata).status == status


# Dead jobs


def dead(queue: Queue, error: str, **fields: Any) -> str:
    job_id = queue.enqueue(priority=9, **fields)
    (claimed,) = queue.claim()
    assert claimed["job_id"] == job_id
    assert queue.do("fail", claimed, error=error, retryable=False).status == 204
    return job_id


def requeue(queue: Queue, **fields: Any) -> Answer:
    return queue.server.post("/v1/jobs/requeue", {"queue": queue.name} | fields)


def states(queue: Queue) -> list[str]:
    listed = queue.server.get(f"/v1/jobs?queue={queue.name}").json["jobs"]
    return [one["state"] for one in listed]


@pytest.mark.clause("J9")
def test_dead_jobs_are_requeued_by_task_and_error(queue: Queue) -> None:
    dead(queue, "ConnectionError: refused", task="send")
    dead(queue, "ValueError: no such address", task="send")
    dead(queue, "ConnectionError: reset", task="fetch")
    other = Queue(queue.server)
    dead(other, "ConnectionError: elsewhere")
    wanted = {"task": "send", "error": "ConnectionError"}
    assert requeue(queue, filter=wanted, dry_run=True).json == {"matched": 1, "requeued": 0}
    assert states(queue) == ["dead"] * 3
    assert requeue(queue, filter=wanted).json == {"matched": 1, "requeued": 1}
    assert states(queue) == ["ready", "dead", "dead"]
    assert requeue(queue).json == {"matched": 2, "requeued": 2}
    assert requeue(queue).json == {"matched": 0, "requeued": 0}
    assert states(other) == ["dead"]
    assert sorted(one["attempt"] for one in queue.claim(10)) == [1, 1, 1]


@pytest.mark.clause("J9")
def test_dead_jobs_are_requeued_by_the_time_of_their_end(queue: Queue) -> None:
    first, second = dead(queue, "boom"), dead(queue, "boom")
    ended = [queue.show(one)["history"][-1]["ended_at"] for one in (first, second)]
    if ended[0] == ended[1]:
        assert requeue(queue, filter={"since": ended[0]}, dry_run=True).json["matched"] == 2
        return
    assert requeue(queue, filter={"since": ended[1]}, dry_run=True).json["matched"] == 1
    assert requeue(queue, filter={"until": ended[1]}).json == {"matched": 1, "requeued": 1}
    assert [queue.show(one)["state"] for one in (first, second)] == ["ready", "dead"]


@pytest.mark.clause("J9")
def test_a_rate_spreads_the_jobs_and_a_wrong_filter_is_refused(queue: Queue) -> None:
    for _ in range(6):
        dead(queue, "boom")
    assert requeue(queue, rate_per_s=20).json == {"matched": 6, "requeued": 6}
    assert states(queue) == ["ready"] * 6
    for wrong in ({"filter": {"since": "yesterday"}}, {"filter": {"id": "job-1"}}, {"rate_per_s": 0}):
        requeue(queue, **wrong).refused(400, "INVALID_ARGUMENT")
