"""What is counted: one operation at a time over one connection, so that every run does the same."""

import http.client
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_VALUE = "x" * 100
_TOPIC, _GROUP, _OWNER, _QUEUE = "orders", "billing", "worker-1", "mail"
BATCH = 100

Run = Callable[["Calls", int], None]
"""Makes so many operations."""


class Calls:
    """A client that does nothing but send and read."""

    def __init__(self, port: int, key: str | None = None) -> None:
        self._port = port
        self._authorization = {"Authorization": f"Bearer {key}"} if key else {}
        self._connection = http.client.HTTPConnection("127.0.0.1", port)
        self._count = 0

    def close(self) -> None:
        self._connection.close()

    def post(self, path: str, body: dict[str, Any]) -> Any:
        head = {"Content-Type": "application/json", **self._authorization}
        self._connection.request("POST", path, json.dumps(body), head)
        answer = self._connection.getresponse()
        text = answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"{path}: {answer.status} {text.decode()}")
        return json.loads(text) if text else None

    def create(self) -> None:
        for topic in (_TOPIC, f"{_TOPIC}.taken"):
            self.post("/v1/topics", {"name": topic, "partitions": 4})

    def message(self, *, topic: str = _TOPIC, keyed: bool = False, traced: bool = False) -> dict[str, Any]:
        self._count += 1
        envelope = {"envelope": {"idempotency_key": f"key-{self._count}"}} if keyed else {}
        if traced:
            envelope = {"envelope": {"traceparent": f"00-{self._count:032x}-{self._count:016x}-00"}}
        return {"topic": topic, "key": f"user:{self._count % 100}", "value": _VALUE, **envelope}

    @contextmanager
    def stream(self) -> Iterator[http.client.HTTPResponse]:
        """Deliveries one by one: the next comes when the last is acked."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port)
        query = f"topic={_TOPIC}.taken&group={_GROUP}&owner={_OWNER}&prefetch=1&lease_ms=600000"
        connection.request("GET", f"/v1/consume?{query}", headers=self._authorization)
        try:
            yield connection.getresponse()
        finally:
            connection.close()


def single_produce(calls: Calls, count: int) -> None:
    for _ in range(count):
        calls.post("/v1/produce", calls.message())


def traced_produce(calls: Calls, count: int) -> None:
    for _ in range(count):
        calls.post("/v1/produce", calls.message(traced=True))


def keyed_produce(calls: Calls, count: int) -> None:
    for _ in range(count):
        calls.post("/v1/produce", calls.message(keyed=True))


def batch_produce(calls: Calls, count: int) -> None:
    for _ in range(count // BATCH):
        calls.post("/v1/produce/batch", {"messages": [calls.message() for _ in range(BATCH)]})


def deliver_and_ack(calls: Calls, count: int) -> None:
    for _ in range(count // BATCH):
        messages = [calls.message(topic=f"{_TOPIC}.taken") for _ in range(BATCH)]
        calls.post("/v1/produce/batch", {"messages": messages})
    with calls.stream() as deliveries:
        for _ in range(count):
            delivery = json.loads(deliveries.readline())
            ack = {"partition": delivery["partition"], "offset": delivery["offset"], "owner": _OWNER}
            calls.post("/v1/ack", {"topic": f"{_TOPIC}.taken", "group": _GROUP, **ack})


def run_jobs(calls: Calls, count: int) -> None:
    for _ in range(count):
        calls.post("/v1/jobs", {"queue": _QUEUE, "task": "send", "payload": {"to": "a@b.c"}})
        claim = {"queues": [_QUEUE], "owner": _OWNER, "lease_ms": 600_000, "max": 1}
        job = calls.post("/v1/jobs/claim", claim)["jobs"][0]
        calls.post(f"/v1/jobs/{job['job_id']}/complete", {"token": job["token"]})


SCENARIOS: dict[str, tuple[Run, int]] = {
    "single produce": (single_produce, 100),
    "single produce with a key": (keyed_produce, 100),
    "batch of 100, a message": (batch_produce, 1_000),
    "delivery + ack": (deliver_and_ack, 100),
    "job: enqueue, claim, complete": (run_jobs, 50),
}
"""Each with how many operations make one run."""
