"""A finished job is told of after the broker has forgotten it: from the history, or from what the log has."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from driftq.history.file import history_end, read_history
from tests.contract.job_queue import Queue
from tests.contract.serving import Server

PATIENCE_S = 60.0
FORGETFUL = {"retention_ms": 1, "idempotency_ttl_ms": 1}


@pytest.fixture(params=["with a history", "from the log alone"])
def forgetful(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    asked: dict[str, Any] = {"limits": FORGETFUL}
    if request.param == "with a history":
        asked |= {"history": str(tmp_path / "history.db"), "segment_records": 12}
    with Server(tmp_path / "log", **asked) as running:
        yield running


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)


def listed(queue: Queue) -> list[str]:
    return [job["job_id"] for job in queue.server.get("/v1/jobs", queue=queue.name).json["jobs"]]


@pytest.mark.clause("J10", "J1")
def test_a_forgotten_job_is_told_with_all_its_runs(
    forgetful: Server, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    queue = Queue(forgetful)
    holding = queue.enqueue("holds the others in memory")
    queue.claim(1)
    job = queue.enqueue({"to": "a@b.c"}, max_retries=0)
    (first,) = queue.claim(1, owner="w1")
    queue.do("fail", first, error="no route")
    queue.move("requeue", job)
    (second,) = queue.claim(1, owner="w2")
    queue.do("complete", second, result={"sent": True})
    large = queue.enqueue("x" * 20_000)
    queue.do("complete", *queue.claim(1, owner="w3"))
    before, before_large = queue.show(job), queue.show(large)
    assert [(one["owner"], one["error"]) for one in before["history"]] == [("w1", "no route"), ("w2", None)]
    assert (before["state"], before["attempts"], before["result"]) == ("succeeded", 1, {"sent": True})
    assert before["last_error"] == ""

    held = queue.show(holding)
    assert held["state"] == "in_flight"
    queue.do("complete", {"job_id": holding, "token": 1})
    for _ in range(40):
        forgetful.produce(forgetful.new_topic(), "more")  # Seals segments where they are small.
    if "with a history" in request.node.name:
        until(lambda: covered(tmp_path / "history.db"))
    until(lambda: not listed(queue))
    assert queue.show(job) == before
    assert queue.show(large) == before_large | {"payload": None}
    forgetful.kill()
    forgetful.start()
    assert queue.show(job) == before
    forgetful.get("/v1/jobs/job-3").refused(404, "NOT_FOUND")


def covered(history: Path) -> bool:
    """A round of the housekeeper has been through the segments of these jobs."""
    database = read_history(str(history))
    if database is None:
        return False
    with closing(database):
        ended = "SELECT count(*) FROM jobs WHERE state = 'succeeded'"
        return history_end(database) > 1 and database.execute(ended).fetchone() == (3,)
