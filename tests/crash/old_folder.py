"""A data folder with something of everything in it, as a server of some version leaves it when it is killed.

    python -m tests.crash.old_folder VERSION     write tests/crash/folders/VERSION.tar.xz and VERSION.json

The JSON is what that server answered before it was killed, and when. Both are written by the code of that
version, once, and never again: `test_old_folders.py` opens each of these folders with the current code.
"""

import json
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.harness import Client, ServerProcess, Stream

FOLDERS = Path(__file__).parent / "folders"
LONG_MS = 43_200_000
GROUP, OWNER = "billing", "worker-1"
COMMITTED = {"topic": "orders", "group": GROUP, "idempotency_key": "charge-1"}
FAILED = {"topic": "orders", "group": GROUP, "idempotency_key": "charge-2"}
PENDING = {"topic": "orders", "group": GROUP, "idempotency_key": "charge-3"}
KEYED = {"topic": "orders", "key": "user:1", "value": "keyed", "envelope": {"idempotency_key": "order-1"}}


def _post(client: Client, path: str, body: Any) -> Any:
    answer = client.post(path, body)
    assert answer.status < 300, (path, answer)
    return answer.body


def _fill_topics(client: Client) -> None:
    for name, partitions in (("orders", 3), ("mail", 1), ("gone", 2)):
        _post(client, "/v1/topics", {"name": name, "partitions": partitions})
    messages = [{"topic": "orders", "key": f"user:{n}", "value": f"order {n}"} for n in range(40)]
    steps = [
        {"topic": "orders", "value": f"step {n}", "envelope": {"run_id": "run-1", "step_id": f"s{n}"}}
        for n in range(3)
    ]
    policy = {"retry_policy": {"max_attempts": 2, "backoff_ms": 10}}
    risky = [{"topic": "mail", "value": f"mail {n}", "envelope": policy} for n in range(5)]
    _post(client, "/v1/produce/batch", {"messages": [*messages, *steps, *risky, KEYED]})
    _post(client, "/v1/produce", {"topic": "gone", "value": "soon deleted"})
    assert client._call("DELETE", "/v1/topics/gone", None).status < 300


def _consume(server: ServerProcess, client: Client) -> None:
    """Acks out of order, nacks, dead letters of which one is sent again and one purged, a long lease."""
    stream = server.stream("orders", GROUP, OWNER, lease_ms=LONG_MS)
    taken = stream.take(44)
    for delivery in taken[::2]:
        _settle(client, "ack", "orders", delivery)
    _settle(client, "nack", "orders", taken[1], reason="try later")
    for delivery in taken[3:8:2]:
        _settle(client, "nack", "orders", delivery, reason="broken", retryable=False)
    stream.close()
    mail: Stream = server.stream("mail", GROUP, OWNER, lease_ms=LONG_MS)
    for delivery in mail.take(2):
        _settle(client, "nack", "mail", delivery, reason="no such address", retryable=False)
    mail.close()
    dead = client.get("/v1/dlq/orders").body["messages"]
    _post(client, "/v1/dlq/orders/redrive", {"offsets": [dead[0]["offset"]]})
    _post(client, "/v1/dlq/orders/purge", {"offsets": [dead[1]["offset"]]})
    server.stream("orders", "search", OWNER, start="latest").close()
    _post(client, "/v1/topics/orders/groups/search/reset", {"to": "earliest"})


def _settle(client: Client, verb: str, topic: str, delivery: dict[str, Any], **more: Any) -> None:
    place = {"partition": delivery["partition"], "offset": delivery["offset"], "owner": OWNER}
    _post(client, f"/v1/{verb}", {"topic": topic, "group": GROUP, **place, **more})


def _begin_effects(client: Client) -> None:
    held = {"owner": OWNER, "lease_ms": LONG_MS}
    for identity, verb, more in (
        (COMMITTED, "commit", {"result": {"paid": 12}}),
        (FAILED, "fail", {"error": "declined"}),
        (PENDING, "", {}),
    ):
        begun = _post(client, "/v1/idempotency/begin", {**identity, **held})
        if verb:
            finished = {**identity, "owner": OWNER, "token": begun["token"], **more}
            _post(client, f"/v1/idempotency/{verb}", finished)


def _run_jobs(client: Client) -> None:
    for number in range(6):
        job = {"queue": "mail", "task": "send", "payload": {"to": number}, "idempotency_key": f"job-{number}"}
        _post(client, "/v1/jobs", job)
    later = {"queue": "mail", "task": "send", "payload": {}, "run_at": "2099-01-01T00:00:00Z"}
    _post(client, "/v1/jobs", later)
    claim = {"queues": ["mail"], "owner": OWNER, "lease_ms": LONG_MS, "max": 3}
    done, dead, _held = _post(client, "/v1/jobs/claim", claim)["jobs"]
    _post(client, f"/v1/jobs/{done['job_id']}/complete", {"token": done["token"], "result": {"sent": 1}})
    failed = {"token": dead["token"], "error": "no such address", "retryable": False}
    _post(client, f"/v1/jobs/{dead['job_id']}/fail", failed)


def _append_events(client: Client) -> None:
    for number in range(12):
        event = {
            "event_id": f"00000000-0000-4000-8000-{number:012}",
            "aggregate_type": "order",
            "aggregate_id": str(number % 3),
            "event_type": "OrderChanged",
            "kind": "domain",
            "operation": "append",
            "payload": {"number": number},
            "occurred_at": "2026-01-01T00:00:00Z",
        }
        _post(client, "/v1/events", event)


def fill(server: ServerProcess) -> None:
    """Something of everything: most of it in the snapshot, a part of it only in the log's tail."""
    client = server.client()
    _fill_topics(client)
    _append_events(client)
    _consume(server, client)
    _begin_effects(client)
    _run_jobs(client)
    _post(client, "/v1/seal", {})
    _post(client, "/v1/produce", {"topic": "orders", "key": "user:7", "value": "after the snapshot"})
    _post(client, "/v1/jobs", {"queue": "mail", "task": "send", "payload": {"to": "late"}})


def views(client: Client) -> dict[str, Any]:
    """What the server answers about all that."""
    seen: dict[str, Any] = {}
    for path in (
        "/v1/topics",
        "/v1/topics/orders",
        "/v1/topics/mail",
        "/v1/topics/orders/records?partition=0",
        "/v1/topics/orders/records?partition=1",
        "/v1/topics/orders/records?partition=2",
        "/v1/topics/mail/records?partition=0",
        "/v1/dlq",
        "/v1/dlq/orders",
        "/v1/dlq/mail",
        "/v1/jobs?queue=mail",
        "/v1/jobs?queue=mail&state=dead",
        "/v1/runs/run-1",
        "/v1/messages/orders/0",
        "/v1/messages/mail/0",
        *(f"/v1/events?aggregate_type=order&aggregate_id={number}" for number in range(3)),
        *(
            f"/v1/idempotency/status?topic=orders&group={GROUP}&idempotency_key={one['idempotency_key']}"
            for one in (COMMITTED, FAILED, PENDING)
        ),
    ):
        answer = client.get(path)
        body = answer.body.decode() if isinstance(answer.body, bytes) else answer.body
        seen[path] = {"status": answer.status, "body": body}
    return seen


def main() -> None:
    version = sys.argv[1]
    with tempfile.TemporaryDirectory() as name:
        with ServerProcess(Path(name) / "data") as server:
            fill(server)
            at = time.time_ns() // 1_000_000
            seen = views(server.client())
            server.kill()
        FOLDERS.mkdir(exist_ok=True)
        with tarfile.open(FOLDERS / f"{version}.tar.xz", "w:xz") as archive:
            archive.add(Path(name) / "data", arcname="data")
    text = json.dumps({"at": at, "views": seen}, indent=1, sort_keys=True, ensure_ascii=False)
    (FOLDERS / f"{version}.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
