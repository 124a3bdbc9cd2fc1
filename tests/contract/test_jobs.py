"""Jobs over HTTP: enqueue, claim, heartbeat, complete, fail, cancel, requeue."""

from __future__ import annotations

import datetime as dt
import time

import pytest

from tests.contract.job_queue import Queue, instant, stale
from tests.contract.serving import Server


@pytest.fixture
def queue(server: Server) -> Queue:
    return Queue(server)


@pytest.mark.clause("J10", "J7", "J9")
def test_the_life_of_a_job(queue: Queue) -> None:
    payload = {"to": "a@b.c", "lines": [1, None, "é"]}
    before = time.time()
    asked = queue.ask(payload, priority=7)
    assert (asked.status, asked.json["state"]) == (201, "ready")
    (job,) = queue.claim()
    assert (
        job.items()
        >= {
            "job_id": asked.json["job_id"],
            "queue": queue.name,
            "task": "send",
            "payload": payload,
            "priority": 7,
            "attempt": 1,
        }.items()
    )
    assert job["token"] >= 1
    assert before + 29 < instant(job["lease_until"]) < time.time() + 31
    assert queue.show(job["job_id"])["state"] == "in_flight"
    assert queue.do("heartbeat", job, lease_ms=600_000).status == 204
    assert instant(queue.show(job["job_id"])["lease_until"]) > before + 599
    assert queue.do("complete", job, result={"sent": True}).status == 204
    shown = queue.show(job["job_id"])
    assert (shown["state"], shown["attempts"], shown["result"]) == ("succeeded", 1, {"sent": True})
    (attempt,) = shown["history"]
    assert (attempt["owner"], attempt["error"]) == ("w", None)
    assert instant(attempt["started_at"]) <= instant(attempt["ended_at"])


@pytest.mark.clause("J7")
def test_only_the_current_token_counts(queue: Queue) -> None:
    queue.enqueue()
    (old,) = queue.claim(lease_ms=50)
    (new,) = queue.claim(wait_ms=50_000)
    assert new["token"] > old["token"]
    assert (new["job_id"], new["attempt"]) == (old["job_id"], 2)
    for verb, fields in (("heartbeat", {}), ("complete", {}), ("fail", {"error": "x"})):
        assert stale(queue.do(verb, old, **fields))
    assert queue.show(new["job_id"])["last_error"] == "lease_ended"
    assert queue.do("complete", new).status == 204
    assert queue.do("complete", new).status == 204
    assert stale(queue.do("complete", old))
    assert stale(queue.do("fail", new, error="too late"))


@pytest.mark.clause("J8", "J9")
def test_a_job_that_fails_is_tried_again_and_then_dead(queue: Queue) -> None:
    job_id = queue.enqueue({"n": 1}, max_retries=1)
    (first,) = queue.claim()
    assert queue.do("fail", first, error="no route").status == 204
    shown = queue.show(job_id)
    assert (shown["last_error"], shown["attempts"]) == ("no route", 1)
    assert shown["state"] in ("scheduled", "ready")
    (second,) = queue.claim(wait_ms=30_000)
    assert second["attempt"] == 2
    assert queue.do("fail", second, error="still none").status == 204
    (dead,) = queue.server.get("/v1/jobs", queue=queue.name, state="dead").json["jobs"]
    assert (dead["job_id"], dead["payload"], dead["attempts"]) == (job_id, {"n": 1}, 2)
    assert dead["last_error"] == "still none"
    assert [attempt["error"] for attempt in dead["history"]] == ["no route", "still none"]


@pytest.mark.clause("J9")
def test_what_is_not_retryable_is_dead_at_once_and_can_be_requeued(queue: Queue) -> None:
    job_id = queue.enqueue()
    (job,) = queue.claim()
    assert queue.do("fail", job, error="bad address", retryable=False).status == 204
    assert queue.show(job_id)["state"] == "dead"
    answer = queue.move("requeue", job_id)
    assert (answer.status, answer.json) == (200, {"job_id": job_id, "state": "ready"})
    (again,) = queue.claim()
    assert (again["job_id"], again["attempt"]) == (job_id, 1)
    assert len(queue.show(job_id)["history"]) == 2


@pytest.mark.clause("J10")
def test_cancel(queue: Queue) -> None:
    ready, scheduled, held = (
        queue.enqueue(),
        queue.enqueue(run_at="2100-01-01T00:00:00Z"),
        queue.enqueue(priority=9),
    )
    (job,) = queue.claim()
    assert job["job_id"] == held
    for job_id in (ready, scheduled, held):
        assert queue.move("cancel", job_id).json == {"job_id": job_id, "state": "dead"}
        assert queue.show(job_id)["last_error"] == "cancelled"
        error = queue.move("cancel", job_id).refused(409, "FAILED_PRECONDITION")
        assert error["reason"] == "wrong_state"
    assert stale(queue.do("complete", job))
    assert queue.claim() == []


@pytest.mark.clause("J10")
def test_what_is_done_stays_done(queue: Queue) -> None:
    queue.enqueue()
    (job,) = queue.claim()
    queue.do("complete", job)
    for verb in ("cancel", "requeue"):
        queue.move(verb, job["job_id"]).refused(409, "FAILED_PRECONDITION")
    waiting = queue.enqueue()
    error = queue.move("requeue", waiting).refused(409, "FAILED_PRECONDITION")
    assert error["message"].endswith("it is ready")


@pytest.mark.clause("J2", "J3", "J4", "J5")
def test_claims_take_by_priority_then_in_order_and_never_the_same(queue: Queue) -> None:
    plain = [queue.enqueue(number) for number in range(5)]
    urgent = queue.enqueue("urgent", priority=9)
    humble = queue.enqueue("humble", priority=0)
    first, second = queue.claim(3), queue.claim(10)
    assert [job["job_id"] for job in first + second] == [urgent, *plain, humble]
    tokens = [job["token"] for job in first + second]
    assert tokens == sorted(set(tokens))


@pytest.mark.clause("J6")
def test_queues_do_not_meet(server: Server) -> None:
    mail, video = Queue(server), Queue(server)
    mine = mail.enqueue()
    video.enqueue(priority=9)
    assert [job["job_id"] for job in mail.claim(10)] == [mine]
    mail.enqueue()
    assert len(mail.claim(10, queues=[mail.name, video.name, mail.name])) == 2


@pytest.mark.clause("J11")
def test_a_scheduled_job_waits_for_its_time(queue: Queue) -> None:
    now = dt.datetime.now(dt.UTC)
    assert queue.ask(run_at=(now + dt.timedelta(hours=1)).isoformat()).json["state"] == "scheduled"
    assert queue.claim() == []
    due = now + dt.timedelta(seconds=1)
    asked = queue.ask(run_at=due.isoformat())
    (job,) = queue.claim(wait_ms=50_000)
    assert time.time() >= due.timestamp()
    assert job["job_id"] == asked.json["job_id"]
    assert queue.ask(run_at="2001-01-01T00:00:00+02:00").json["state"] == "ready"


@pytest.mark.clause("J11")
def test_a_key_makes_a_job_unique_in_its_queue(queue: Queue) -> None:
    first = queue.ask({"a": 1, "b": 2}, idempotency_key="k")
    assert (first.status, first.json["duplicate"]) == (201, False)
    same = queue.ask({"b": 2, "a": 1}, idempotency_key="k")
    assert (same.status, same.json) == (200, {**first.json, "duplicate": True})
    other = queue.ask({"a": 2}, idempotency_key="k")
    assert other.status == 200
    assert other.json == {**first.json, "duplicate": True, "payload_mismatch": True}
    assert queue.ask(idempotency_key="k", queue=queue.name + "-other").status == 201
    (job,) = queue.claim(10)
    queue.do("complete", job)
    done = queue.ask({"a": 1, "b": 2}, idempotency_key="k")
    assert (done.status, done.json["job_id"], done.json["state"]) == (200, job["job_id"], "succeeded")


@pytest.mark.clause("J11")
def test_the_server_ends_a_run_that_takes_too_long(queue: Queue) -> None:
    job_id = queue.enqueue(timeout_ms=300, max_retries=0)
    began = time.monotonic()
    (job,) = queue.claim()
    while queue.do("heartbeat", job, lease_ms=30_000).status == 204:
        assert time.monotonic() - began < 30
        time.sleep(0.02)
    assert time.monotonic() - began > 0.25
    assert stale(queue.do("complete", job))
    shown = queue.show(job_id)
    assert (shown["state"], shown["last_error"]) == ("dead", "execution_timeout")
