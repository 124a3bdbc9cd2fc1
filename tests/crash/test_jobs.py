"""A server that is killed in the middle of a thousand jobs: each is done once, and none is stuck."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tests.harness import Answer, Broken, Client, ServerProcess

JOBS = 1_000
WORKERS = 4
LEASE_MS = 10_000
"""Longer than a restart takes, also where others keep the machine busy."""
PAUSE_S = 0.02


class EffectLog:
    """What the handlers did, outside of every server."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.effects: Counter[int] = Counter()
        self.tokens: dict[str, list[int]] = {}
        self.surprises: list[str] = []

    def ran(self, job: dict[str, Any]) -> None:
        with self._lock:
            self.effects[job["payload"]["number"]] += 1
            self.tokens.setdefault(job["job_id"], []).append(job["token"])

    def done(self) -> int:
        with self._lock:
            return len(self.effects)


class Worker(threading.Thread):
    """Claims, runs and settles until told to stop; an answer that is lost is asked for again."""

    def __init__(self, name: str, server: ServerProcess, effect_log: EffectLog) -> None:
        super().__init__(name=name, daemon=True)
        self._server = server
        self._ledger = effect_log
        self._client = Client(server.port)
        self._chance = random.Random(name)
        self.stopping = threading.Event()

    def run(self) -> None:
        while not self.stopping.is_set():
            ask = {"queues": ["mail"], "owner": self.name, "lease_ms": LEASE_MS, "wait_ms": 300}
            ask["max"] = self._chance.choice((1, 3, 10))
            try:
                answer = self._client.post("/v1/jobs/claim", ask)
            except Broken:
                self.stopping.wait(PAUSE_S)
                continue
            if answer.status == 200:
                for job in answer.body["jobs"]:
                    self._ledger.ran(job)
                self._settle(answer.body["jobs"])

    def _settle(self, jobs: list[dict[str, Any]]) -> None:
        if len(jobs) == 1:
            path, token = f"/v1/jobs/{jobs[0]['job_id']}/complete", jobs[0]["token"]
            answer = self._until_answered(lambda: self._client.post(path, {"token": token}))
            if answer is not None and answer.status != 204:
                self._ledger.surprises.append(f"{path} answered {answer}")
        elif jobs:
            results = [
                {"job_id": job["job_id"], "token": job["token"], "outcome": "complete"} for job in jobs
            ]
            body = {"owner": self.name, "results": results}
            answer = self._until_answered(lambda: self._client.post("/v1/jobs/settle", body))
            if answer is not None and answer.body["results"] != [{"status": "settled"}] * len(jobs):
                self._ledger.surprises.append(f"settle answered {answer}")

    def _until_answered(self, call: Callable[[], Answer]) -> Answer | None:
        while not self.stopping.is_set():
            try:
                answer = call()
            except Broken:
                self.stopping.wait(PAUSE_S)
                continue
            if answer.status != 503:
                return answer
        return None


def enqueue(server: ServerProcess, numbers: range) -> None:
    """Each under its own key, until each is confirmed; a server may die on the way."""
    client = Client(server.port)
    for number in numbers:
        body: dict[str, Any] = {"queue": "mail", "task": "send", "payload": {"number": number}}
        body |= {"idempotency_key": f"mail-{number}", "max_retries": 10, "priority": number % 3 + 4}
        while True:
            try:
                if client.post("/v1/jobs", body).status in (200, 201):
                    break
            except Broken:
                time.sleep(PAUSE_S)


def wait_until(happened: Callable[[], bool], within_s: float) -> None:
    end = time.monotonic() + within_s
    while not happened():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.01)


@pytest.mark.clause("J1", "J5", "J7", "J11", "W3")
def test_a_kill_in_the_middle_of_a_thousand_jobs(server: ServerProcess) -> None:
    effect_log = EffectLog()
    workers = [Worker(f"worker-{number}", server, effect_log) for number in range(WORKERS)]
    producer = threading.Thread(target=enqueue, args=(server, range(JOBS)), daemon=True)
    for thread in (producer, *workers):
        thread.start()
    for share in (200, 500, 800):
        wait_until(lambda share=share: effect_log.done() >= share, 120)  # type: ignore[misc]
        server.restart()
    wait_until(lambda: effect_log.done() == JOBS, 120)
    producer.join(60)
    client = server.client()
    wait_until(lambda: len(client.get("/v1/jobs", state="in_flight").body["jobs"]) == 0, 60)
    for worker in workers:
        worker.stopping.set()
    for worker in workers:
        worker.join(60)
    assert not effect_log.surprises
    assert effect_log.effects == Counter(range(JOBS))  # Each once: no lease ended while its worker lived.
    states = Counter(job["state"] for job in _all_jobs(client))
    assert states == {"succeeded": JOBS}
    assert all(tokens == sorted(set(tokens)) for tokens in effect_log.tokens.values())


def _all_jobs(client: Client) -> list[dict[str, Any]]:
    jobs: list[dict[str, Any]] = []
    query: dict[str, Any] = {"limit": 300}
    while True:
        page = client.get("/v1/jobs", **query).body
        jobs += page["jobs"]
        if "after" not in page:
            return jobs
        query["after"] = page["after"]


@pytest.mark.clause("J1", "J7")
def test_a_worker_that_dies_after_its_claim_is_replaced(server: ServerProcess) -> None:
    client = server.client()
    body = {"queue": "mail", "task": "send", "payload": None}
    job_id = client.post("/v1/jobs", body).body["job_id"]
    claim = {"queues": ["mail"], "owner": "dead", "lease_ms": 400, "max": 1}
    (first,) = client.post("/v1/jobs/claim", claim).body["jobs"]
    server.restart()
    client = server.client()
    heir = claim | {"owner": "heir", "wait_ms": 15_000, "lease_ms": 60_000}
    (second,) = client.post("/v1/jobs/claim", heir).body["jobs"]
    assert (second["job_id"], second["attempt"], second["token"] > first["token"]) == (job_id, 2, True)
    assert client.post(f"/v1/jobs/{job_id}/complete", {"token": first["token"]}).status == 409
    assert client.post(f"/v1/jobs/{job_id}/complete", {"token": second["token"]}).status == 204
    server.restart()
    client = server.client()
    assert client.post("/v1/jobs/claim", claim).body["jobs"] == []
    shown = client.get(f"/v1/jobs/{job_id}").body
    assert [(attempt["owner"], attempt["error"]) for attempt in shown["history"]] == [
        ("dead", "lease_ended"),
        ("heir", None),
    ]


@pytest.mark.clause("I3", "I6", "I8")
def test_an_effect_is_once_whatever_is_killed(server: ServerProcess) -> None:
    identity = {"topic": "orders", "group": "billing", "idempotency_key": "order-1"}
    client = server.client()
    begin = identity | {"owner": "a", "lease_ms": 300}
    first = client.post("/v1/idempotency/begin", begin).body
    server.restart()
    client = server.client()
    heir = begin | {"lease_ms": 60_000}
    wait_until(lambda: client.post("/v1/idempotency/begin", heir).body["outcome"] != "held", 60)
    status = client.get("/v1/idempotency/status", **identity).body
    assert status["status"] == "PENDING"
    old = client.post("/v1/idempotency/commit", identity | {"owner": "a", "token": first["token"]})
    assert (old.status, old.body["reason"]) == (409, "superseded")
    taken = identity | {"owner": "a", "token": first["token"] + 1, "result": {"charged": 5}}
    assert client.post("/v1/idempotency/commit", taken).status == 204
    server.restart()
    again = server.client().post("/v1/idempotency/begin", begin | {"owner": "b"}).body
    assert again == {"outcome": "already_committed", "result": {"charged": 5}}
