"""A job's retry policy over HTTP: its own, or the server's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.job_queue import Queue, instant
from tests.contract.serving import Server


@pytest.fixture
def queue(server: Server) -> Queue:
    return Queue(server)


def policy(queue: Queue, **fields: Any) -> dict[str, Any]:
    retry = queue.show(queue.enqueue(**fields))["retry"]
    return dict(retry)


DEFAULT = {"max_attempts": 20, "base_ms": 2_000, "cap_ms": 3_600_000, "jitter": "full"}


@pytest.mark.clause("J14")
def test_a_job_without_a_policy_has_the_servers(queue: Queue) -> None:
    assert policy(queue) == DEFAULT
    assert policy(queue, max_retries=0) == DEFAULT | {"max_attempts": 1}
    assert policy(queue, max_retries=7) == DEFAULT | {"max_attempts": 8}


@pytest.mark.clause("J14")
def test_what_a_job_says_wins_field_by_field(queue: Queue) -> None:
    assert policy(queue, retry={"max_attempts": 5}) == DEFAULT | {"max_attempts": 5}
    own = {"max_attempts": 2, "base_ms": 10, "cap_ms": 40, "jitter": "none"}
    assert policy(queue, retry=own) == own
    assert policy(queue, retry={"base_ms": 7_200_000})["cap_ms"] == 7_200_000, "never below its base"
    assert policy(queue, retry={"cap_ms": 50})["base_ms"] == 50


@pytest.mark.clause("J14")
@pytest.mark.parametrize(
    "fields",
    [
        {"retry": {"max_attempts": 3}, "max_retries": 2},
        {"retry": {"max_attempts": 0}},
        {"retry": {"max_attempts": 10_001}},
        {"retry": {"base_ms": -1}},
        {"retry": {"base_ms": 100, "cap_ms": 99}},
        {"retry": {"jitter": "some"}},
        {"retry": {"attempts": 3}},
        {"retry": 3},
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(queue: Queue, fields: dict[str, Any]) -> None:
    queue.ask(**fields).refused(400, "INVALID_ARGUMENT")
    assert queue.claim(10) == []


@pytest.mark.clause("J14")
def test_the_claim_says_how_many_attempts_there_are(queue: Queue) -> None:
    queue.enqueue(retry={"max_attempts": 3, "base_ms": 0, "cap_ms": 0})
    for attempt in (1, 2, 3):
        (job,) = queue.claim(wait_ms=5_000)
        assert (job["attempt"], job["max_attempts"]) == (attempt, 3)
        assert queue.do("fail", job, error="boom").status == 204
    shown = queue.show(job["job_id"])
    assert (shown["state"], shown["error"], len(shown["history"])) == ("dead", "boom", 3)


@pytest.mark.clause("J14")
def test_without_jitter_the_wait_is_the_whole_one(queue: Queue) -> None:
    job_id = queue.enqueue(retry={"max_attempts": 9, "base_ms": 60_000, "cap_ms": 60_000, "jitter": "none"})
    (job,) = queue.claim()
    assert queue.do("fail", job, error="boom").status == 204
    shown = queue.show(job_id)
    waited_s = instant(shown["run_at"]) - instant(shown["history"][0]["ended_at"])
    assert (shown["state"], round(waited_s, 3)) == ("scheduled", 60.0)


@pytest.fixture
def restartable(tmp_path: Path) -> Iterator[Server]:
    with Server(tmp_path / "log") as running:
        yield running


@pytest.mark.clause("J14", "W3")
def test_stored_jobs_keep_their_policy_when_the_servers_changes(
    restartable: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = Queue(restartable)
    old = queue.enqueue()
    restartable.kill()
    monkeypatch.setenv("DRIFTQ_JOBS_RETRY_MAX_ATTEMPTS", "2")
    monkeypatch.setenv("DRIFTQ_JOBS_RETRY_BASE_MS", "30")
    monkeypatch.setenv("DRIFTQ_JOBS_RETRY_CAP_MS", "90")
    monkeypatch.setenv("DRIFTQ_JOBS_RETRY_JITTER", "none")
    restartable.start()
    assert queue.show(old)["retry"] == DEFAULT
    assert policy(queue) == {"max_attempts": 2, "base_ms": 30, "cap_ms": 90, "jitter": "none"}
