"""Tenants over HTTP: a tenant's key reaches what the tenant owns, and nothing tells it what else there is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.contract.keyed import TenantServer
from tests.contract.serving import Answer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.clause("Y3")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TenantServer]:
    folder = tmp_path_factory.mktemp("tenants")
    with TenantServer(folder, audit_file=str(folder / "audit.log")) as running:
        yield running


def is_missing(answer: Answer, other: Answer, name: str, instead: str) -> bool:
    """Whether two replies differ in nothing but the name."""
    return (answer.status, answer.content.replace(name.encode(), instead.encode())) == (404, other.content)


def test_whoami_names_the_tenant_of_a_key(server: TenantServer) -> None:
    assert server.ask("GET", "/v1/whoami", key=server.acme).json["tenant"] == "acme"
    assert server.ask("GET", "/v1/whoami", key=server.admin).json["tenant"] is None


def test_a_topic_belongs_to_the_tenant_whose_key_made_it(server: TenantServer) -> None:
    assert server.create("acme.orders", key=server.acme).status == 201
    foreign = server.ask("GET", "/v1/topics/acme.orders", key=server.globex)
    nothing = server.ask("GET", "/v1/topics/no.such", key=server.globex)
    assert is_missing(foreign, nothing, "acme.orders", "no.such")
    assert "acme.orders" in server.ask("GET", "/v1/topics", key=server.acme).json["topics"]
    assert "acme.orders" not in server.ask("GET", "/v1/topics", key=server.globex).json["topics"]
    assert server.ask("GET", "/v1/topics/acme.orders", key=server.admin).json["tenant"] == "acme"
    assert server.ask("GET", "/v1/topics/acme.orders", key=server.acme).json["tenant"] == "acme"


def test_a_name_that_another_tenant_has_cannot_be_made(server: TenantServer) -> None:
    assert server.create("taken", key=server.acme).status == 201
    server.create("taken", key=server.globex).refused(404, "NOT_FOUND")
    server.create("taken", key=server.globex, partitions=3).refused(404, "NOT_FOUND")
    assert server.create("taken", key=server.acme).status == 201  # Repeated, it changes nothing.


def test_what_is_produced_carries_the_tenant_of_the_key(server: TenantServer) -> None:
    assert server.create("stamped", key=server.acme, partitions=1).status == 201
    assert server.send("stamped", "bare", key=server.acme).status == 200
    assert server.send("stamped", "said", key=server.acme, tenant_id="acme", run_id="r").status == 200
    assert server.ask("POST", "/v1/produce?topic=stamped&value=query", key=server.acme).status == 200
    batch = {"messages": [{"topic": "stamped", "value": "batch"}, {"topic": "stamped", "value": "more"}]}
    assert server.ask("POST", "/v1/produce/batch", batch, key=server.acme).status == 200
    lines = b'{"topic":"stamped","value":"line"}\n'
    sent = {"Content-Type": "application/x-ndjson"}
    assert server.ask("POST", "/v1/produce/batch", lines, key=server.acme, headers=sent).status == 200
    epoch = server.ask("POST", "/v1/topics/stamped/writers", {"writer": "w"}, key=server.acme).json["epoch"]
    append = {"writer": "w", "lane": 0, "epoch": epoch, "messages": [{"position": 0, "value": "appended"}]}
    assert server.ask("POST", "/v1/topics/stamped/append", append, key=server.acme).status == 200
    stored = server.records("stamped")
    assert len(stored) == 7
    assert {line["envelope"]["tenant_id"] for line in stored} == {"acme"}


def test_a_produce_that_names_another_tenant_stores_nothing(server: TenantServer) -> None:
    assert server.create("honest", key=server.acme).status == 201
    forged = {"topic": "honest", "value": "x", "envelope": {"tenant_id": "globex"}}
    epoch = server.ask("POST", "/v1/topics/honest/writers", {"writer": "w"}, key=server.acme).json["epoch"]
    message = {"position": 0, "value": "x", "envelope": {"tenant_id": "globex"}}
    append = {"writer": "w", "lane": 0, "epoch": epoch, "messages": [message]}
    for path, body in (
        ("/v1/produce", forged),
        ("/v1/produce?topic=honest&value=x&tenant=globex", None),
        ("/v1/produce/batch", {"messages": [{"topic": "honest", "value": "y"}, forged]}),
        ("/v1/topics/honest/append", append),
    ):
        error = server.ask("POST", path, body, key=server.acme).refused(403, "PERMISSION_DENIED")
        assert (error["kind"], error["given"]) == ("TenantMismatch", "globex")
    assert server.records("honest") == []
    assert (
        server.send("honest", "free", key=server.admin, tenant_id="globex").status == 200
    )  # No tenant: free.


def test_no_message_reaches_the_topic_of_another_tenant(server: TenantServer) -> None:
    assert server.create("globex.inbox", key=server.globex).status == 201
    assert server.create("acme.outbox", key=server.acme).status == 201
    for body in (
        {"topic": "globex.inbox", "value": "x"},
        {"topic": "acme.outbox", "value": "x", "envelope": {"target_topic": "globex.inbox"}},
    ):
        server.ask("POST", "/v1/produce", body, key=server.acme).refused(404, "NOT_FOUND")
        good = {"topic": "acme.outbox", "value": "good"}
        batch = {"messages": [good, body]}
        server.ask("POST", "/v1/produce/batch", batch, key=server.acme).refused(404, "NOT_FOUND")
    assert server.records("globex.inbox") == server.records("acme.outbox") == []


def test_an_operator_sets_the_owner_and_never_changes_it(server: TenantServer) -> None:
    assert server.create("given", key=server.admin, tenant="acme").status == 201
    assert server.ask("GET", "/v1/topics/given", key=server.acme).status == 200
    error = server.create("given", key=server.admin, tenant="globex").refused(409, "FAILED_PRECONDITION")
    assert (error["kind"], error["tenant"]) == ("OwnedByAnother", "acme")
    assert server.create("given", key=server.admin).status == 201  # Without a tenant: as it is.
    server.create("mine", key=server.globex, tenant="acme").refused(403, "PERMISSION_DENIED")
    for wrong in ("", "a b", "x" * 101, "a\n"):
        server.create("wrong", key=server.admin, tenant=wrong).refused(400, "INVALID_ARGUMENT")


def test_what_nobody_owns_needs_a_key_without_tenant_until_it_is_given(server: TenantServer) -> None:
    assert server.create("old", key=server.admin).status == 201
    assert server.send("old", "x", key=server.admin).status == 200
    assert server.ask("GET", "/v1/topics/old/records", key=server.acme).status == 404
    assert server.send("old", "x", key=server.acme).status == 404
    assert server.create("old", key=server.acme).status == 404
    assert server.create("old", key=server.admin, tenant="acme").status == 201
    assert len(server.ask("GET", "/v1/topics/old/records", key=server.acme).lines) == 1


def dead_letter(server: TenantServer, topic: str, key: str) -> None:
    """Produce a message and give it up."""
    assert server.send(topic, f"secret of {topic}", key=key).status == 200
    place = {"topic": topic, "group": "g", "owner": "o"}
    query = "&".join(f"{name}={value}" for name, value in place.items())
    head = f"GET /v1/consume?{query} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n\r\n"
    with server.open() as stream:
        stream.sendall(head.encode())
        received = b""
        while b'"offset"' not in received:
            received += stream.recv(65536)
        line = json.loads(received[received.index(b'{"') : received.rindex(b"}") + 1].splitlines()[0])
        nack = place | {"partition": line["partition"], "offset": line["offset"], "retryable": False}
        assert server.ask("POST", "/v1/nack", nack, key=key).status == 204


def test_dead_letters_belong_to_the_owner_of_their_topic(server: TenantServer) -> None:
    assert server.create("failing", key=server.acme).status == 201
    dead_letter(server, "failing", server.acme)
    listed = server.ask("GET", "/v1/dlq", key=server.acme).json["dlqs"]
    assert [one["topic"] for one in listed] == ["failing"]
    assert server.ask("GET", "/v1/dlq", key=server.globex).json["dlqs"] == []
    foreign = server.ask("GET", "/v1/dlq/failing", key=server.globex)
    nothing = server.ask("GET", "/v1/dlq/no.such", key=server.globex)
    assert is_missing(foreign, nothing, "failing", "no.such")
    assert server.ask("GET", "/v1/topics/dlq.failing/records", key=server.globex).status == 404
    assert len(server.ask("GET", "/v1/topics/dlq.failing/records", key=server.acme).lines) == 1
    for verb in ("redrive", "purge"):
        assert server.ask("POST", f"/v1/dlq/failing/{verb}", {}, key=server.globex).status == 404
    assert server.ask("POST", "/v1/dlq/failing/redrive", {}, key=server.acme).json["redriven"] == 1


def test_a_deleted_topic_leaves_its_dead_letters_to_its_owner(server: TenantServer) -> None:
    assert server.create("left", key=server.acme).status == 201
    dead_letter(server, "left", server.acme)
    assert server.ask("DELETE", "/v1/topics/left", key=server.globex).status == 404
    assert server.ask("DELETE", "/v1/topics/left", key=server.acme).status == 200
    assert len(server.ask("GET", "/v1/dlq/left", key=server.acme).json["messages"]) == 1
    assert "left" in [one["topic"] for one in server.ask("GET", "/v1/dlq", key=server.acme).json["dlqs"]]
    server.create("left", key=server.globex).refused(404, "NOT_FOUND")
    error = server.create("left", key=server.admin, tenant="globex").refused(409, "FAILED_PRECONDITION")
    assert error["name"] == "dlq.left"
    assert server.create("left", key=server.admin).status == 201
    assert server.ask("GET", "/v1/topics/left", key=server.admin).json["tenant"] == "acme"


def test_dead_letters_of_handlers_are_stored_for_the_owner_alone(server: TenantServer) -> None:
    assert server.create("handled", key=server.acme).status == 201
    letter: dict[str, Any] = {
        "id": "l1",
        "kind": "worker",
        "handler": "h",
        "stage": "handle",
        "key": "k",
        "value": "v",
    }
    letter |= {"partition": 0, "offset": 0, "attempts": 1, "last_error": "no", "reason": "failed"}
    letter |= {"at": "2026-01-01T00:00:00Z"}
    for topic in ("handled", "no.such"):
        path = f"/v1/dlq/{topic}/letters"
        assert server.ask("POST", path, {"letters": [letter]}, key=server.globex).status == 404
    assert server.ask("GET", "/v1/topics/dlq.no.such", key=server.admin).status == 404
    answer = server.ask("POST", "/v1/dlq/handled/letters", {"letters": [letter]}, key=server.acme)
    assert answer.status == 200, answer


def test_a_queue_belongs_to_the_tenant_that_uses_it_first(server: TenantServer) -> None:
    job = server.enqueue("mail", key=server.acme).json["job_id"]
    server.enqueue("mail", key=server.globex).refused(404, "NOT_FOUND")
    foreign = server.ask("GET", "/v1/jobs?queue=mail", key=server.globex)
    assert is_missing(foreign, server.ask("GET", "/v1/jobs?queue=nope", key=server.globex), "mail", "nope")
    claim = {"queues": ["mail"], "owner": "w", "lease_ms": 60_000, "max": 5}
    assert server.ask("POST", "/v1/jobs/claim", claim, key=server.globex).status == 404
    mixed = claim | {"queues": ["globex.new", "mail"]}
    assert server.ask("POST", "/v1/jobs/claim", mixed, key=server.globex).status == 404
    assert server.enqueue("globex.new", key=server.acme).status == 201  # The refused claim has not taken it.
    shown = server.ask("GET", f"/v1/jobs/{job}", key=server.globex)
    assert is_missing(shown, server.ask("GET", "/v1/jobs/job-99999", key=server.globex), job, "job-99999")
    for verb, body in (("cancel", None), ("requeue", None), ("heartbeat", {"token": 1})):
        assert server.ask("POST", f"/v1/jobs/{job}/{verb}", body, key=server.globex).status == 404
    listed = server.ask("GET", "/v1/jobs", key=server.acme).json["jobs"]
    assert {one["queue"] for one in listed} == {"mail", "globex.new"}
    assert server.ask("GET", "/v1/jobs", key=server.globex).json["jobs"] == []
    (claimed,) = server.ask("POST", "/v1/jobs/claim", claim, key=server.acme).json["jobs"]
    end = {"job_id": job, "token": claimed["token"], "outcome": "complete"}
    settled = server.ask("POST", "/v1/jobs/settle", {"owner": "w", "results": [end]}, key=server.globex)
    assert settled.json["results"][0]["kind"] == "JobNotFound"
    assert server.ask("GET", f"/v1/jobs/{job}", key=server.acme).json["state"] == "in_flight"
    settled = server.ask("POST", "/v1/jobs/settle", {"owner": "w", "results": [end]}, key=server.acme)
    assert settled.json["results"] == [{"status": "settled"}]


def test_a_queue_that_was_used_without_a_tenant_belongs_to_nobody(server: TenantServer) -> None:
    assert server.enqueue("shared", key=server.admin).status == 201
    server.enqueue("shared", key=server.acme).refused(404, "NOT_FOUND")
    claim = {"queues": ["shared"], "owner": "w", "lease_ms": 60_000, "max": 5}
    assert server.ask("POST", "/v1/jobs/claim", claim, key=server.acme).status == 404
    assert server.enqueue("shared", key=server.admin).status == 201


def test_a_worker_that_is_first_owns_the_queue_that_it_waits_for(server: TenantServer) -> None:
    claim = {"queues": ["early"], "owner": "w", "lease_ms": 60_000, "max": 1}
    assert server.ask("POST", "/v1/jobs/claim", claim, key=server.acme).json == {"jobs": []}
    server.enqueue("early", key=server.globex).refused(404, "NOT_FOUND")
    assert server.enqueue("early", key=server.acme).status == 201


def test_a_refused_job_takes_no_queue(server: TenantServer) -> None:
    server.enqueue("untaken", key=server.globex, priority=99).refused(400, "INVALID_ARGUMENT")
    assert server.enqueue("untaken", key=server.acme).status == 201


def test_of_two_tenants_that_use_a_name_at_the_same_time_one_gets_it(server: TenantServer) -> None:
    with ThreadPoolExecutor(8) as pool:
        for number in range(25):
            keys = [server.acme, server.globex] * 4
            answers = list(pool.map(lambda key, n=number: server.enqueue(f"race-{n}", key=key).status, keys))
            winners = {key for key, status in zip(keys, answers, strict=True) if status == 201}
            assert len(winners) == 1, answers
            assert sorted(answers) == [201] * 4 + [404] * 4


def test_an_aggregate_type_belongs_to_the_tenant_that_appends_first(server: TenantServer) -> None:
    assert server.append_event("order", "a1", key=server.acme).status == 201
    assert server.append_event("order", "a2", key=server.acme).status == 201
    server.append_event("order", "g1", key=server.globex).refused(404, "NOT_FOUND")
    assert server.append_event("invoice", "g2", key=server.globex).status == 201
    assert server.append_event("legacy", "o1", key=server.admin).status == 201
    server.append_event("legacy", "a3", key=server.acme).refused(404, "NOT_FOUND")
    read = "/v1/events?aggregate_type={}&aggregate_id=1"
    foreign = server.ask("GET", read.format("order"), key=server.globex)
    assert is_missing(foreign, server.ask("GET", read.format("none"), key=server.globex), "order", "none")
    assert len(server.ask("GET", read.format("order"), key=server.acme).json["events"]) == 2

    def log(key: str, **query: Any) -> list[str]:
        return [line["event_id"] for line in server.ask("GET", "/v1/events/log", key=key, **query).lines]

    assert log(server.admin) == ["a1", "a2", "g2", "o1"]
    assert log(server.acme) == log(server.acme, stored="true") == ["a1", "a2"]
    assert log(server.acme, **{"from": 2}) == ["a2"]
    assert log(server.globex, limit=1) == ["g2"]  # Not cut to the events of others.


def test_a_list_of_events_is_refused_as_a_whole_where_one_type_is_foreign(server: TenantServer) -> None:
    assert server.append_event("theirs", "t1", key=server.globex).status == 201
    event = {"aggregate_id": "1", "event_type": "made", "kind": "test", "operation": "append", "payload": 1}
    both = [
        event | {"event_id": f"l{number}", "aggregate_type": name}
        for number, name in enumerate(["ours", "theirs"])
    ]
    server.ask("POST", "/v1/events", both, key=server.acme).refused(404, "NOT_FOUND")
    assert server.append_event("ours", "free", key=server.globex).status == 201


def test_the_topic_of_an_aggregate_type_goes_to_its_owner_alone(server: TenantServer) -> None:
    """The publisher fills `events.TYPE`: a tenant must not catch the events of another by taking the name."""
    assert server.append_event("ship", "s1", key=server.acme).status == 201
    server.create("events.ship", key=server.globex).refused(404, "NOT_FOUND")
    server.create("events.later", key=server.globex).refused(404, "NOT_FOUND")
    assert server.create("events.ship", key=server.admin).status == 201
    assert server.ask("GET", "/v1/topics/events.ship", key=server.acme).json["tenant"] == "acme"
    assert server.create("events.held", key=server.admin, tenant="globex").status == 201
    server.append_event("held", "h1", key=server.acme).refused(404, "NOT_FOUND")
    assert server.append_event("held", "h2", key=server.globex).status == 201


def test_a_run_shows_only_what_the_tenant_owns(server: TenantServer) -> None:
    """Two tenants may have runs of one id: neither sees the other's."""
    for topic, key in (("run.a", server.acme), ("run.g", server.globex)):
        assert server.create(topic, key=key).status == 201
    assert server.send("run.a", "x", key=server.acme, run_id="r-1", step_id="first").status == 200
    assert server.ask("GET", "/v1/runs/r-1", key=server.acme).status == 200
    foreign = server.ask("GET", "/v1/runs/r-1", key=server.globex)
    assert is_missing(foreign, server.ask("GET", "/v1/runs/r-2", key=server.globex), "r-1", "r-2")
    assert server.send("run.g", "y", key=server.globex, run_id="r-1", step_id="other").status == 200
    steps = server.ask("GET", "/v1/runs/r-1", key=server.globex).json["steps"]
    assert [step["step_id"] for step in steps] == ["other"]
    assert len(server.ask("GET", "/v1/runs/r-1", key=server.admin).json["steps"]) == 2


@pytest.mark.clause("Y3", "I11")
def test_a_run_shows_no_steps_of_another_tenant(server: TenantServer) -> None:
    step = {"topic": "steps", "group": "agent", "idempotency_key": "step:r-7/charge", "owner": "o"}
    begun = server.ask("POST", "/v1/idempotency/begin", step | {"lease_ms": 60_000}, key=server.acme)
    commit = step | {"token": begun.json["token"], "result": "secret"}
    assert server.ask("POST", "/v1/idempotency/commit", commit, key=server.acme).status == 204
    [shown] = server.ask("GET", "/v1/runs/r-7", key=server.acme).json["steps"]
    assert shown["effects"][0]["result"] == "secret"
    foreign = server.ask("GET", "/v1/runs/r-7", key=server.globex)
    assert is_missing(foreign, server.ask("GET", "/v1/runs/r-8", key=server.globex), "r-7", "r-8")
    assert len(server.ask("GET", "/v1/runs/r-7", key=server.admin).json["steps"]) == 1


def test_effects_of_two_tenants_never_meet(server: TenantServer) -> None:
    effect = {"topic": "steps", "group": "g", "idempotency_key": "k", "owner": "o", "lease_ms": 60_000}
    first = server.ask("POST", "/v1/idempotency/begin", effect, key=server.acme).json
    assert first["outcome"] == "proceed"
    assert server.ask("POST", "/v1/idempotency/begin", effect, key=server.globex).json["outcome"] == "proceed"
    forged = effect | {"tenant_id": "acme"}
    error = server.ask("POST", "/v1/idempotency/begin", forged, key=server.globex)
    assert error.refused(403, "PERMISSION_DENIED")["kind"] == "TenantMismatch"
    done = {name: effect[name] for name in ("topic", "group", "idempotency_key", "owner")}
    done |= {"token": first["token"], "result": "secret"}
    assert server.ask("POST", "/v1/idempotency/commit", done, key=server.acme).status == 204
    status: dict[str, Any] = {"topic": "steps", "group": "g", "idempotency_key": "k"}
    assert (
        server.ask("GET", "/v1/idempotency/status", key=server.acme, **status).json["status"] == "COMMITTED"
    )
    assert (
        server.ask("GET", "/v1/idempotency/status", key=server.globex, **status).json["status"] == "PENDING"
    )
    named = status | {"tenant_id": "acme"}
    assert (
        server.ask("GET", "/v1/idempotency/status", key=server.admin, **named).json["status"] == "COMMITTED"
    )
    assert server.create("effects.a", key=server.acme).status == 201
    foreign = effect | {"topic": "effects.a"}
    assert server.ask("POST", "/v1/idempotency/begin", foreign, key=server.globex).status == 404
    source = effect | {"offset": 0, "source_topic": "effects.a"}
    assert server.ask("POST", "/v1/idempotency/begin", source, key=server.globex).status == 404


def test_what_covers_all_tenants_needs_a_key_without_one(server: TenantServer) -> None:
    for method, path in (("GET", "/v1/metrics"), ("POST", "/v1/seal")):
        error = server.ask(method, path, key=server.acme).refused(403, "PERMISSION_DENIED")
        assert error["reason"] == "tenant_not_allowed"
        assert server.ask(method, path, key=server.admin).status == 200


@pytest.mark.clause("Y8")
def test_the_audit_log_has_what_a_tenant_tried_on_another(server: TenantServer) -> None:
    assert server.create("watched", key=server.acme).status == 201
    assert server.ask("DELETE", "/v1/topics/watched", key=server.globex).status == 404
    audit = Path(server.keys_file).parent / "audit.log"

    def tried() -> bool:
        entries = [json.loads(line) for line in audit.read_text().splitlines()]
        return {"key": "globex", "target": {"topic": "watched"}, "status": 404}.items() <= entries[-1].items()

    wait_until("the attempt is in the audit log", tried)


@pytest.mark.clause("Y3", "J17", "J19")
def test_a_batch_of_jobs_and_what_they_wait_for_stay_within_a_tenant(server: TenantServer) -> None:
    foreign = server.enqueue("batch.globex", key=server.globex).json["job_id"]
    jobs = [
        {"queue": "batch.acme", "task": "t", "payload": 1},
        {"queue": "batch.acme", "task": "t", "payload": 2},
    ]
    taken = server.ask("POST", "/v1/jobs/batch", {"jobs": jobs}, key=server.acme)
    assert [one["state"] for one in taken.json["results"]] == ["ready", "ready"]
    other = [{**jobs[0], "queue": "batch.globex"}]
    assert server.ask("POST", "/v1/jobs/batch", {"jobs": other}, key=server.acme).status == 404
    waiting = server.ask(
        "POST", "/v1/jobs/batch", {"jobs": [{**jobs[0], "after": [foreign]}, jobs[1]]}, key=server.acme
    )
    assert [one.get("kind", "stored") for one in waiting.json["results"]] == ["JobNotFound", "stored"]
    server.enqueue("batch.acme", key=server.acme, after=[foreign]).refused(404, "NOT_FOUND")


@pytest.mark.clause("Y3", "J18", "J20")
def test_queues_with_their_limits_are_their_tenants(server: TenantServer) -> None:
    limits = {"concurrency": 2, "tenant": "acme"}
    assert server.ask("PUT", "/v1/queues/given/limits", limits, key=server.admin).status == 200
    assert server.ask("PUT", "/v1/queues/made/limits", {"concurrency": 1}, key=server.globex).status == 200
    assert server.ask("PUT", "/v1/queues/given/limits", {}, key=server.globex).status == 404
    assert server.ask("POST", "/v1/queues/given/pause", key=server.globex).status == 404
    assert server.ask("POST", "/v1/queues/given/pause", key=server.acme).json["paused"]
    server.enqueue("given", key=server.acme)
    server.enqueue("made", key=server.globex)
    shown = server.ask("GET", "/v1/queues", key=server.acme).json["queues"]
    assert [one["queue"] for one in shown if one["queue"] in ("given", "made")] == ["given"]
