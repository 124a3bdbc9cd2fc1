"""A server with something of everything: messages, deliveries, dead letters, a run, jobs and events."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from driftq.registry import Effect, EventKey, GapPolicy, Handler
from driftq.registry.sql_registry import SqlRegistry
from driftq.sql.sqlite import SqliteDatabase
from tests.contract.serving import Server, Stream

HOSTILE = "<script>window.hit = 1</script><img src=x onerror='window.hit = 2'>"
RUN = "nightly-7"
AGENT_RUN = "order-17"
CHILD = "job-7"
"""A job that waits for another one."""


def fill(server: Server) -> None:
    """Everything that stays: the server may be looked at for as long as one likes."""
    for name, partitions in (("orders", 3), ("payments", 1), ("shipments", 2)):
        assert server.post("/v1/topics", {"name": name, "partitions": partitions}).status == 201
    for number in range(40):
        order = {
            "order": number,
            "customer": f"user:{number % 7}",
            "total": 12.5 + number,
            "items": [{"sku": "A-17", "count": 2}],
        }
        server.produce(
            "orders", json.dumps(order), f"user:{number % 7}", tenant_id="acme" if number % 2 else "globex"
        )
    for number in range(6):
        server.produce("payments", json.dumps({"payment": number, "amount": 10 * number}), f"order-{number}")
    give_up(server, "payments", "ledger", 3)
    steps(server)
    jobs(server)
    events(server)
    flow(server)
    unfinished_steps(server)
    outbox(server)
    pipelines(server)


def give_up(server: Server, topic: str, group: str, count: int) -> None:
    """A group that has no use for these messages, after two attempts each."""
    with server.consume(topic, group=group, owner="ledger-1", lease_ms=60_000) as stream:
        for _ in range(count):
            line = stream.next()
            server.settle(
                "nack",
                topic,
                line,
                group=group,
                owner="ledger-1",
                reason="ValueError: account 4711 is closed\n  at ledger.py:42",
                retryable=False,
            )
        for line in stream.take(6 - count):
            server.settle("ack", topic, line, group=group, owner="ledger-1")


def steps(server: Server) -> None:
    """A run of five steps, one of which failed."""
    tree = [("plan", None), ("collect", "plan"), ("clean", "collect"), ("report", "plan"), ("mail", "report")]
    for step, parent in tree:
        envelope: dict[str, Any] = {"run_id": RUN, "step_id": step}
        if parent:
            envelope["parent_step_id"] = parent
        server.produce("shipments", json.dumps({"step": step}), step, **envelope)
    with server.consume("shipments", group="agents", owner="agent-1", lease_ms=60_000) as stream:
        for line in stream.take(len(tree)):
            if json.loads(line["value"])["step"] == "mail":
                fields = {"reason": "SMTPError: mailbox full", "retryable": False}
                server.settle("nack", "shipments", line, group="agents", owner="agent-1", **fields)
            else:
                server.settle("ack", "shipments", line, group="agents", owner="agent-1")


def jobs(server: Server) -> str:
    """Jobs in every state; the id of the dead one."""
    assert (
        server.post(
            "/v1/jobs", {"queue": "mail", "task": "send", "payload": {"to": "ada@example.com"}}
        ).status
        == 201
    )
    [done] = claim(server, "mail")
    assert (
        server.post(
            f"/v1/jobs/{done['job_id']}/complete", {"token": done["token"], "result": {"sent": True}}
        ).status
        == 204
    )
    dead = {"queue": "mail", "task": "send", "payload": {"to": "bob@example.com", "note": HOSTILE}}
    assert server.post("/v1/jobs", dead).status == 201
    [failed] = claim(server, "mail")
    error = "ConnectionRefusedError: smtp.example.com:25\n  at mailer.py:17"
    body = {"token": failed["token"], "error": error, "retryable": False}
    assert server.post(f"/v1/jobs/{failed['job_id']}/fail", body).status == 204
    for number in range(3):
        server.post("/v1/jobs", {"queue": "reports", "task": "render", "payload": {"page": number}})
    server.post(
        "/v1/jobs", {"queue": "mail", "task": "digest", "payload": None, "run_at": "2100-01-01T00:00:00Z"}
    )
    claim(server, "reports")
    return str(failed["job_id"])


def flow(server: Server) -> None:
    """Schedules, limits, a pause, and a job that waits for another one."""
    for name, cron, missed in (("nightly", "30 2 * * *", "last"), ("poll", "*/5 * * * *", "all")):
        body = {"name": name, "cron": cron, "timezone": "Europe/Berlin", "queue": "reports", "task": "render"}
        assert server.post("/v1/schedules", body | {"missed": missed, "payload": {}}).status == 201
    assert server.post("/v1/schedules/poll/pause", {}).status == 200
    limits = {"concurrency": 20, "rate": {"count": 100, "per_ms": 60_000}, "per_key": {"concurrency": 2}}
    assert server.put("/v1/queues/mail/limits", limits).status == 200
    assert server.post("/v1/queues/video/pause", {}).status == 200
    part = {"queue": "video", "task": "encode", "payload": {"part": 1}}
    parent = server.post("/v1/jobs", part).json["job_id"]
    whole = {"queue": "video", "task": "publish", "payload": None, "after": [parent]}
    child = server.post("/v1/jobs", whole | {"metadata": {"request": "r-17"}, "limit_key": "acme"})
    assert child.json == {"job_id": CHILD, "state": "blocked", "duplicate": False}


def unfinished_steps(server: Server) -> None:
    """A run of steps: one is done, the outcome of another is unknown, and one is under way."""
    for step, lease_ms in (("plan", 600_000), ("charge", 1), ("mail", 600_000)):
        identity = {"topic": "steps", "group": "agent", "idempotency_key": f"step:{AGENT_RUN}/{step}"}
        terms = {"effect": "unknown", "parent_step_id": None if step == "plan" else "plan"}
        held = identity | {"owner": "agent-1"}
        begun = server.post("/v1/idempotency/begin", held | terms | {"lease_ms": lease_ms})
        assert begun.json["outcome"] == "proceed"
        if step == "plan":
            done = held | {"token": begun.json["token"], "result": {"tools": ["charge", "mail"]}}
            assert server.post("/v1/idempotency/commit", done).status == 204


def outbox(server: Server) -> None:
    """What the relay of an outbox reports."""
    report = {"kind": "outbox", "state": "waiting", "last_batch": 1_204, "rows": 1_204, "lag": 3}
    report |= {"dead_letters": 2, "driver": "shop-1:4711"}
    assert server.post("/v1/pipelines/outbox-shop/progress", report).status == 204


def claim(server: Server, queue: str) -> list[dict[str, Any]]:
    body = {"queues": [queue], "owner": "worker-7", "lease_ms": 600_000, "max": 1, "wait_ms": 5_000}
    return list(server.post("/v1/jobs/claim", body).json["jobs"])


def events(server: Server) -> None:
    for number, (kind, operation) in enumerate(
        [("order.opened", "create"), ("order.paid", "update"), ("order.shipped", "update")], 1
    ):
        event = {
            "event_id": f"o-1-{number}",
            "aggregate_type": "order",
            "aggregate_id": "o-1",
            "event_type": kind,
            "operation": operation,
            "kind": "order",
            "expected_seq": number - 1,
            "payload": {"total": 12, "state": kind.removeprefix("order.")},
            "metadata": {"by": "shop"},
        }
        answer = server.post("/v1/events", event)
        assert answer.status == 201, answer


def pipelines(server: Server) -> None:
    """What drivers report: one that runs, one whose database is away, and one that has failed."""
    running = {"state": "running", "last_batch": 41, "batch_rows": 1200, "batch_ms": 380, "rows": 48_200}
    folder = "/var/lib/driftq/pipeline/checkpoints"
    reports: dict[str, dict[str, Any]] = {
        "publisher": running | {"kind": "publisher", "lag": 0, "rows_per_second": 3157.9},
        "projection-latest": running
        | {"kind": "projection", "state": "target_away", "lag": 1_804, "outages": 1}
        | {"sinks": ["postgresql://db/app"], "error": "db: connection refused; tried again until it answers"},
        "worker-billing": {"kind": "worker", "state": "failed", "rows": 12, "restarts": 5, "lag": 7}
        | {"error": "ModuleNotFoundError: No module named 'stripe'"},
    }
    for name, report in reports.items():
        body = report | {"checkpoint": f"{folder}/{name}", "driver": "etl-1 (pid 4711)"}
        answer = server.post(f"/v1/pipelines/{name}/progress", body)
        assert answer.status == 204, answer


def claims(data: Path) -> None:
    """Claims as a worker on the folder leaves them: one in work, one dead, one whose effect is unknown."""
    database = SqliteDatabase(str(data / "pipeline" / "registry.db"))
    registry = SqlRegistry(database, owner="etl-1 (pid 4711)")
    charge = Handler("charge", Effect.UNKNOWN, GapPolicy.FULL_STATE, max_retries=0, lease_ms=600_000)
    mail = Handler("mail", Effect.IDEMPOTENT, GapPolicy.FULL_STATE, max_retries=0, lease_ms=600_000)
    refused = registry.claim(mail, EventKey("o-1-1", "order", "o-1", 1))
    registry.mark_failed(refused, error="SMTPRecipientsRefused: no such user", retryable=False)
    registry.claim(mail, EventKey("o-1-3", "order", "o-1", 3))
    asked = registry.claim(charge, EventKey("o-1-2", "order", "o-1", 2))
    registry.mark_unknown(asked, error="the worker ended while the handler ran")
    database.close()


@contextlib.contextmanager
def reading(server: Server, topic: str = "orders", group: str = "billing") -> Iterator[Stream]:
    """A consumer that holds a few messages."""
    with server.consume(topic, group=group, owner="billing-1", lease_ms=300_000, prefetch=8) as stream:
        stream.take(8)
        yield stream
