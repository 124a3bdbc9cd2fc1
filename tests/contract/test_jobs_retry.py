"""A job's retry policy over HTTP: its own, or the server's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.contract.job_queue import Queue, instant
from tests.contract.serving import Server
from tests.harness import ServerProcess


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
    job_id = queue.enqueue(retry={"max_attempts": 3, "base_ms": 0, "cap_ms": 0})
    for attempt in (1, 2, 3):
        (job,) = queue.claim(wait_ms=5_000)
        assert (job["attempt"], job["max_attempts"]) == (attempt, 3)
        assert queue.do("fail", job, error="boom").status == 204
    shown = queue.show(job_id)
    assert (shown["state"], shown["error"], len(shown["history"])) == ("dead", "boom", 3)


@pytest.mark.clause("J14")
def test_without_jitter_the_wait_is_the_whole_one(queue: Queue) -> None:
    job_id = queue.enqueue(retry={"max_attempts": 9, "base_ms": 60_000, "cap_ms": 60_000, "jitter": "none"})
    (job,) = queue.claim()
    assert queue.do("fail", job, error="boom").status == 204
    shown = queue.show(job_id)
    waited_s = instant(shown["run_at"]) - instant(shown["history"][0]["ended_at"])
    assert (shown["state"], round(waited_s, 3)) == ("scheduled", 60.0)


@pytest.mark.clause("J14", "W3")
def test_stored_jobs_keep_their_policy_when_the_servers_changes(tmp_path: Path) -> None:
    body = {"queue": "mail", "task": "send", "payload": None}
    with ServerProcess(tmp_path / "data") as server:
        old = server.client().post("/v1/jobs", body).body["job_id"]
        server.kill()
    changed = {"MAX_ATTEMPTS": "2", "BASE_MS": "30", "CAP_MS": "90", "JITTER": "none"}
    env = {f"DRIFTQ_JOBS_RETRY_{name}": value for name, value in changed.items()}
    with ServerProcess(tmp_path / "data", env=env) as server:
        client = server.client()
        new = client.post("/v1/jobs", body).body["job_id"]
        assert client.get(f"/v1/jobs/{old}").body["retry"] == DEFAULT
        own = {"max_attempts": 2, "base_ms": 30, "cap_ms": 90, "jitter": "none"}
        assert client.get(f"/v1/jobs/{new}").body["retry"] == own


@pytest.mark.clause("J14", "J8", "N2")
def test_profile_v1_dev_has_the_numbers_of_spec_003(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", "--profile", "v1-dev") as server:
        client = server.client()
        job = client.post("/v1/jobs", {"queue": "mail", "task": "send", "payload": None}).body["job_id"]
        shown = client.get(f"/v1/jobs/{job}").body
        assert shown["max_retries"] == 3
        expected = {"max_attempts": 4, "base_ms": 500, "cap_ms": 30_000, "jitter": "full"}
        assert shown["retry"] == expected
