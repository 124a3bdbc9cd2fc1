"""Workers outside of the server: they claim and complete, and write down when, as only they can know."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections import Counter, defaultdict
from typing import Any

from tests.harness import Broken, Client, ServerProcess

LEASE_MS = 10_000
"""A claim whose reply was lost with the server holds its place for this long."""
PAUSE_S = 0.02


class Observed:
    """What workers saw, and what was wrong with it."""

    def __init__(self, *, most: int, most_of_key: int) -> None:
        self._most, self._most_of_key = most, most_of_key
        self._lock = threading.Lock()
        self._running: dict[str, dict[str, str]] = defaultdict(dict)
        """By queue: the limit key of each job under a lease that a worker knows."""
        self.completed: set[str] = set()
        """Jobs whose completion was sent, whether or not it arrived."""
        self.runs: Counter[str] = Counter()
        self.peak: Counter[str] = Counter()
        self.problems: list[str] = []
        self.closed: dict[str, float] = {}
        """Queues that were paused, and since when the server has confirmed it."""

    def claimed(self, job: dict[str, Any], *, asked_at: float) -> None:
        queue, job_id, payload = job["queue"], job["job_id"], job["payload"]
        with self._lock:
            running = self._running[queue]
            running[job_id] = payload["key"]
            self.runs[job_id] += 1
            self.peak[queue] = max(self.peak[queue], len(running))
            if queue == "limited":
                of_key = Counter(running.values())
                if len(running) > self._most:
                    self.problems.append(f"{len(running)} jobs of {queue} at once")
                if max(of_key.values()) > self._most_of_key:
                    self.problems.append(f"too many jobs of one key at once: {of_key}")
            if asked_at > self.closed.get(queue, float("inf")):
                self.problems.append(f"{job_id} was claimed while {queue} was paused")
            missing = [one for one in payload.get("after", ()) if one not in self.completed]
            if missing:
                self.problems.append(f"{job_id} was claimed before {missing} were completed")

    def completing(self, job: dict[str, Any]) -> None:
        with self._lock:
            self._running[job["queue"]].pop(job["job_id"], None)
            self.completed.add(job["job_id"])

    def has_completed(self, number: int) -> bool:
        with self._lock:
            return len(self.completed) >= number


class Worker(threading.Thread):
    """Claims and completes until told to stop; an answer that is lost is asked for again."""

    _number = itertools.count()

    def __init__(self, server: ServerProcess, observed: Observed, *queues: str) -> None:
        super().__init__(name=f"worker-{next(self._number)}", daemon=True)
        self._client = Client(server.port)
        self._observed = observed
        self._queues = queues
        self._chance = random.Random(self.name)
        self.stopping = threading.Event()

    def run(self) -> None:
        ask = {"queues": list(self._queues), "owner": self.name, "lease_ms": LEASE_MS, "wait_ms": 200}
        while not self.stopping.is_set():
            asked_at = time.monotonic()
            try:
                answer = self._client.post("/v1/jobs/claim", ask | {"max": self._chance.choice((1, 2, 4))})
            except Broken:
                self.stopping.wait(PAUSE_S)
                continue
            jobs = answer.body["jobs"] if answer.status == 200 else []
            for job in jobs:
                self._observed.claimed(job, asked_at=asked_at)
            self.stopping.wait(self._chance.random() * PAUSE_S)
            for job in jobs:
                self._complete(job)

    def _complete(self, job: dict[str, Any]) -> None:
        self._observed.completing(job)
        while not self.stopping.is_set():
            try:
                answer = self._client.post(f"/v1/jobs/{job['job_id']}/complete", {"token": job["token"]})
            except Broken:
                self.stopping.wait(PAUSE_S)
                continue
            if answer.status != 503:
                if answer.status != 204:
                    self._observed.problems.append(f"{job['job_id']}: {answer}")
                return
