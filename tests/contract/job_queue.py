"""A queue of jobs on a server, as a worker and a producer see it."""

from __future__ import annotations

import datetime as dt
from typing import Any

from tests.contract.serving import Answer, Server


class Queue:
    """A queue of its own on a server that is shared."""

    names = 0

    def __init__(self, server: Server) -> None:
        Queue.names += 1
        self.server = server
        self.name = f"queue-{Queue.names}"

    def enqueue(self, payload: Any = None, **fields: Any) -> str:
        answer = self.ask(payload, **fields)
        assert answer.status == 201, answer
        return str(answer.json["job_id"])

    def ask(self, payload: Any = None, **fields: Any) -> Answer:
        body = {"queue": self.name, "task": "send", "payload": payload}
        return self.server.post("/v1/jobs", body | fields)

    def claim(self, count: int = 1, **fields: Any) -> list[dict[str, Any]]:
        body = {"queues": [self.name], "owner": "w", "lease_ms": 30_000, "max": count}
        answer = self.server.post("/v1/jobs/claim", body | fields)
        assert answer.status == 200, answer
        return list(answer.json["jobs"])

    def show(self, job: str) -> dict[str, Any]:
        answer = self.server.get(f"/v1/jobs/{job}")
        assert answer.status == 200, answer
        return dict(answer.json)

    def do(self, verb: str, job: dict[str, Any], **fields: Any) -> Answer:
        return self.server.post(f"/v1/jobs/{job['job_id']}/{verb}", {"token": job["token"]} | fields)

    def move(self, verb: str, job_id: str) -> Answer:
        return self.server.post(f"/v1/jobs/{job_id}/{verb}")


def stale(answer: Answer) -> bool:
    return answer.refused(409, "FAILED_PRECONDITION")["reason"] == "stale_lease"


def instant(text: str) -> float:
    assert text.endswith("Z")
    return dt.datetime.fromisoformat(text).timestamp()
