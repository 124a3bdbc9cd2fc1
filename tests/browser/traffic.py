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
    clockwork(server)
    events(server)
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


def clockwork(server: Server) -> None:
    """Limits of a queue, one that is paused, and two schedules."""
    limits = {"concurrency": 4, "rate": {"count": 100, "per_ms": 60_000}, "per_key": {"concurrency": 1}}
    assert server.put("/v1/queues/mail/limits", limits).status == 200
    assert server.post("/v1/jobs", {"queue": "imports", "task": "load", "payload": {}}).status == 201
    assert server.post("/v1/queues/imports/pause").status == 200
    for name, cron, zone in (
        ("nightly-report", "30 2 * * *", "Europe/Berlin"),
        ("poll", "*/5 * * * *", "UTC"),
    ):
        schedule = {"name": name, "cron": cron, "timezone": zone, "queue": "reports", "task": "build"}
        assert server.post("/v1/schedules", schedule).status == 201
    assert server.post("/v1/schedules/poll/pause").status == 200


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
