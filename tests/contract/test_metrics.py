"""The metrics of a real server: what was done to messages, jobs and events is counted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from driftq.registry import Effect, EventKey, Handler
from driftq.registry.sql_registry import SqlRegistry
from driftq.sql.sqlite import SqliteDatabase
from tests.contract.serving import Server
from tests.harness import ServerProcess
from tests.support.waiting import wait_until


@pytest.fixture
def counted(tmp_path: Path) -> Iterator[Server]:
    with Server(tmp_path / "log") as running:
        yield running


def samples(server: Server) -> dict[str, float]:
    text = server.get("/v1/metrics").content.decode()
    return {name: float(value) for name, value in re.findall(r"^(\w\S*) (\S+)$", text, re.MULTILINE)}


@pytest.mark.clause("O1")
def test_messages_duplicates_refusals_retries_and_dead_letters_are_counted(counted: Server) -> None:
    topic = counted.new_topic()
    counted.produce(topic, "poison", retry_policy={"max_attempts": 2, "backoff_ms": 0})
    counted.produce(topic, "once", idempotency_key="k")
    assert counted.produce(topic, "once", idempotency_key="k")["duplicate"] is True
    counted.post("/v1/produce", {"topic": "missing", "value": "v"}).refused(404, "NOT_FOUND")
    counted.post("/v1/produce/batch", {"messages": [{"topic": "missing", "value": "v"}] * 3})
    counted.post("/v1/produce", {"value": "v"}).refused(400, "INVALID_ARGUMENT")
    with counted.consume(topic) as stream:
        for _ in range(3):
            line = stream.next()
            if line["value"] == "poison":
                assert counted.settle("nack", topic, line, reason="no").status == 204
            else:
                assert counted.settle("ack", topic, line).status == 204
        found = samples(counted)
    assert found["driftq_produced_total"] == 2
    assert found[f'driftq_topic_produced_total{{topic="{topic}"}}'] == 2
    assert found["driftq_duplicates_total"] == 1
    assert found["driftq_produce_refused_total"] == 4
    assert found['driftq_refusals_total{code="NOT_FOUND",kind="TopicNotFound"}'] == 4
    assert found['driftq_refusals_total{code="INVALID_ARGUMENT",kind="InvalidArgument"}'] == 1
    assert (found["driftq_nacked_total"], found["driftq_redelivered_total"]) == (2, 1)
    assert found["driftq_dead_lettered_total"] == 1
    assert found[f'driftq_dead_letters{{topic="{topic}"}}'] == 1
    assert found["driftq_produce_seconds_count"] == 5, (
        "three messages, one refusal and one batch were decided"
    )
    assert found["driftq_commit_seconds_count"] == found["driftq_commits_total"]
    assert found["driftq_commit_messages_sum"] == found["driftq_produced_total"]
    assert found["driftq_dispatch_seconds_count"] >= 2, "the first two messages, then the retry"
    assert found["driftq_dispatch_seconds_sum"] > 0


@pytest.mark.clause("O1")
def test_every_state_of_a_job_is_counted(counted: Server) -> None:
    def enqueue(**fields: object) -> str:
        body = {"queue": "mail", "task": "send", "payload": {}, "max_retries": 0} | fields
        return str(counted.post("/v1/jobs", body).json["job_id"])

    for _ in range(4):
        enqueue()
    enqueue(idempotency_key="once")
    enqueue(idempotency_key="once")
    enqueue(run_at="2999-01-01T00:00:00Z")
    claim = {"queues": ["mail"], "owner": "w", "lease_ms": 60_000, "max": 3}
    done, failed, _ = counted.post("/v1/jobs/claim", claim).json["jobs"]
    assert counted.post(f"/v1/jobs/{done['job_id']}/complete", {"token": done["token"]}).status == 204
    fail = {"token": failed["token"], "error": "no"}
    assert counted.post(f"/v1/jobs/{failed['job_id']}/fail", fail).status == 204
    found = samples(counted)
    states = {
        state: found[f'driftq_jobs{{queue="mail",state="{state}"}}']
        for state in ("ready", "scheduled", "in_flight", "succeeded", "dead")
    }
    assert states == {"ready": 2, "scheduled": 1, "in_flight": 1, "succeeded": 1, "dead": 1}
    assert (found["driftq_jobs_enqueued_total"], found["driftq_job_duplicates_total"]) == (6, 1)
    assert (found["driftq_jobs_claimed_total"], found["driftq_jobs_completed_total"]) == (3, 1)
    assert (found["driftq_job_failures_total"], found["driftq_jobs_dead_total"]) == (1, 1)
    assert (found["driftq_job_wait_seconds_count"], found["driftq_job_run_seconds_count"]) == (3, 2)
    assert found['driftq_queue_oldest_age_seconds{queue="mail"}'] >= 0
    counted.post(f"/v1/jobs/{failed['job_id']}/requeue")
    assert samples(counted)["driftq_jobs_requeued_total"] == 1


@pytest.mark.clause("O1")
def test_build_process_and_disk_have_metrics(counted: Server) -> None:
    wait_until("the disk was looked at", lambda: "driftq_disk_free_bytes" in samples(counted))
    found = samples(counted)
    assert found["driftq_ready"] == 1
    assert found["driftq_disk_free_bytes"] > found["driftq_disk_floor_bytes"] > 0
    assert any(name.startswith('driftq_build_info{version="') for name in found)
    for name in ("cpu_seconds_total", "resident_memory_bytes", "open_fds", "start_time_seconds"):
        assert found[f"process_{name}"] > 0, name


@pytest.mark.clause("O1")
def test_events_and_the_claims_of_their_handlers_are_counted(tmp_path: Path) -> None:
    event = {
        "event_id": "e1",
        "aggregate_type": "order",
        "aggregate_id": "o1",
        "event_type": "Placed",
        "kind": "event",
        "operation": "create",
        "payload": {},
    }
    with ServerProcess(tmp_path / "data") as server:
        folder = tmp_path / "data" / "pipeline"
        folder.mkdir(exist_ok=True)
        registry = SqlRegistry(SqliteDatabase(str(folder / "registry.db")))
        claim = registry.claim(
            Handler("mail", effect=Effect.IDEMPOTENT), EventKey("e1", "order", "o1", sequence_number=1)
        )
        assert claim.granted
        client = server.client()
        for body in (event, event, event | {"event_id": "e2"}):
            client.post("/v1/events", body)
        text = client.get("/v1/metrics").body.decode()
    for line in (
        "driftq_events_appended_total 1.0",
        "driftq_event_duplicates_total 1.0",
        "driftq_events_refused_total 1.0",
        "driftq_event_append_seconds_count 3.0",
        'driftq_registry_claims{state="claimed"} 1.0',
        'driftq_registry_claims{state="unknown"} 0.0',
    ):
        assert line in text.splitlines(), line
