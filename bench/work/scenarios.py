"""What is counted: operations in a fixed order, so that every run does the same.

Most are one at a time over one connection. Gathered produces come over 64 connections: the server stands
still while they are sent and finds them all at once, so that as many share a turn in every run. Appends of
events are not here: how much the sealer does beside them, in the same process, differs from run to run.
"""

import http.client
import json
import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

_VALUE = "x" * 100
_TAKEN, _TAKEN_BATCHES = "orders.taken", "orders.taken-by-batches"
_TOPIC, _GROUP, _OWNER, _QUEUE = "orders", "billing", "worker-1", "mail"
BATCH = 100
GATHERED = 64

Run = Callable[["Calls", int], None]
"""Makes so many operations."""


class Calls:
    """A client that does nothing but send and read."""

    def __init__(self, port: int, key: str | None = None, pid: int = 0) -> None:
        self._port = port
        self._pid = pid
        self._authorization = {"Authorization": f"Bearer {key}"} if key else {}
        self._connection = http.client.HTTPConnection("127.0.0.1", port)
        self._count = 0

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def connections(self, count: int) -> Iterator[list[socket.socket]]:
        """New ones, because the server closes those that are idle for long."""
        with ExitStack() as stack:
            place = ("127.0.0.1", self._port)
            opened = [stack.enter_context(socket.create_connection(place)) for _ in range(count)]
            opened[-1].sendall(b"GET /v1/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            _read(opened[-1])  # The server has accepted all those before it as well.
            yield opened

    def gathered(self, path: str, connections: list[socket.socket], bodies: list[dict[str, Any]]) -> None:
        """One request on each connection, all of them there before the server reads the first."""
        authorization = "".join(f"{name}: {value}\r\n" for name, value in self._authorization.items())
        os.kill(self._pid, signal.SIGSTOP)
        try:
            for connection, body in zip(connections, bodies, strict=True):
                text = json.dumps(body)
                head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                connection.sendall(f"{head}{authorization}Content-Length: {len(text)}\r\n\r\n{text}".encode())
        finally:
            os.kill(self._pid, signal.SIGCONT)
        for connection in connections:
            _read(connection)

    def post(self, path: str, body: dict[str, Any]) -> Any:
        head = {"Content-Type": "application/json", **self._authorization}
        self._connection.request("POST", path, json.dumps(body), head)
        answer = self._connection.getresponse()
        text = answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"{path}: {answer.status} {text.decode()}")
        return json.loads(text) if text else None

    def create(self) -> None:
        for topic in (_TOPIC, _TAKEN, _TAKEN_BATCHES):
            self.post("/v1/topics", {"name": topic, "partitions": 4})

    def message(self, *, topic: str = _TOPIC, keyed: bool = False, traced: bool = False) -> dict[str, Any]:
        self._count += 1
        envelope = {"envelope": {"idempotency_key": f"key-{self._count}"}} if keyed else {}
        if traced:
            envelope = {"envelope": {"traceparent": f"00-{self._count:032x}-{self._count:016x}-00"}}
        return {"topic": topic, "key": f"user:{self._count % 100}", "value": _VALUE, **envelope}

    @contextmanager
    def stream(self, topic: str, prefetch: int) -> Iterator[http.client.HTTPResponse]:
        """Deliveries, so many before the first is acked."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port)
        query = f"topic={topic}&group={_GROUP}&owner={_OWNER}&prefetch={prefetch}&lease_ms=600000"
        connection.request("GET", f"/v1/consume?{query}", headers=self._authorization)
        try:
            yield connection.getresponse()
        finally:
            connection.close()


def _read(connection: socket.socket) -> None:
    answer = http.client.HTTPResponse(connection)
    answer.begin()
    text = answer.read()
    if answer.status >= 300:
        raise RuntimeError(f"{answer.status} {text.decode()}")


def single_produce(calls: Calls, count: int) -> None:
    for _ in range(count):
        calls.post("/v1/produce", calls.message())


def traced_produce(calls: Calls, count: int) -> None:
    for _ in range(count):
        calls.post("/v1/produce", calls.message(traced=True))


def keyed_produce(calls: Calls, count: int) -> None:
    for _ in range(count):
        calls.post("/v1/produce", calls.message(keyed=True))


def gathered_produce(calls: Calls, count: int) -> None:
    with calls.connections(GATHERED) as connections:
        for _ in range(count // GATHERED):
            calls.gathered("/v1/produce", connections, [calls.message() for _ in range(GATHERED)])


def keyed_batch(calls: Calls, count: int) -> None:
    for _ in range(count // BATCH):
        messages = [calls.message(keyed=True) for _ in range(BATCH)]
        calls.post("/v1/produce/batch", {"messages": messages})


def batch_produce(calls: Calls, count: int) -> None:
    for _ in range(count // BATCH):
        calls.post("/v1/produce/batch", {"messages": [calls.message() for _ in range(BATCH)]})


def deliver_and_ack(calls: Calls, count: int) -> None:
    for _ in range(count // BATCH):
        messages = [calls.message(topic=_TAKEN) for _ in range(BATCH)]
        calls.post("/v1/produce/batch", {"messages": messages})
    with calls.stream(_TAKEN, 1) as deliveries:
        for _ in range(count):
            delivery = json.loads(deliveries.readline())
            ack = {"partition": delivery["partition"], "offset": delivery["offset"], "owner": _OWNER}
            calls.post("/v1/ack", {"topic": _TAKEN, "group": _GROUP, **ack})


def deliver_and_ack_batches(calls: Calls, count: int) -> None:
    with calls.stream(_TAKEN_BATCHES, BATCH) as deliveries:
        for _ in range(count // BATCH):
            messages = [calls.message(topic=_TAKEN_BATCHES) for _ in range(BATCH)]
            calls.post("/v1/produce/batch", {"messages": messages})
            received = [json.loads(deliveries.readline()) for _ in range(BATCH)]
            acks = [{"partition": one["partition"], "offset": one["offset"]} for one in received]
            body = {"topic": _TAKEN_BATCHES, "group": _GROUP, "owner": _OWNER, "acks": acks}
            calls.post("/v1/ack/batch", body)


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
    "gathered produce, 64 connections": (gathered_produce, 1_280),
    "batch of 100 with keys, a message": (keyed_batch, 1_000),
    "delivery + ack": (deliver_and_ack, 100),
    "produce, delivery + ack by 100": (deliver_and_ack_batches, 1_000),
    "job: enqueue, claim, complete": (run_jobs, 50),
}
"""Each with how many operations make one run."""
