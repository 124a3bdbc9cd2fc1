"""A machine whose clock jumps: nothing ends early, and nothing waits for the old hour to come again."""

import datetime as dt
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.harness import Client, ServerProcess
from tests.support.shifted_clock import ShiftedClock
from tests.support.waiting import wait_until

HOUR_S = 3600
DAY_S = 24 * HOUR_S


@pytest.fixture
def shift(tmp_path: Path) -> ShiftedClock:
    return ShiftedClock(tmp_path / "clock")


@pytest.fixture
def shifted(tmp_path: Path, shift: ShiftedClock) -> ServerProcess:
    return ServerProcess(tmp_path / "data", env=shift.env)


def leased(server: ServerProcess, *, lease_ms: int) -> None:
    client = server.client()
    client.post("/v1/topics", {"name": "orders"})
    message = {"topic": "orders", "value": "a", "envelope": {"idempotency_key": "order-1"}}
    assert client.post("/v1/produce", message).body["duplicate"] is False
    server.stream("orders", "billing", "worker", lease_ms=lease_ms).take(1)


@pytest.mark.clause("W9")
def test_a_clock_set_forward_ends_no_lease_and_forgets_no_key(
    shifted: ServerProcess, shift: ShiftedClock
) -> None:
    with shifted as server:
        leased(server, lease_ms=60_000)
        shift.set(HOUR_S)
        client = server.client()
        message = {"topic": "orders", "value": "a", "envelope": {"idempotency_key": "order-1"}}
        assert client.post("/v1/produce", message).body["duplicate"] is True
        ack = {"topic": "orders", "group": "billing", "partition": 0, "offset": 0, "owner": "worker"}
        assert client.post("/v1/ack", ack).status == 204


@pytest.mark.clause("W9")
def test_a_clock_set_back_before_a_restart_delays_nothing(
    shifted: ServerProcess, shift: ShiftedClock
) -> None:
    with shifted as server:
        leased(server, lease_ms=1_000)
        server.kill()
        shift.set(-HOUR_S)
        server.start()
        (again,) = server.stream("orders", "billing", "worker", timeout_s=60).take(1)
        assert (again["attempts"], again["last_error"]) == (2, "ack_timeout")


def in_an_hour() -> str:
    """By a clock that is right."""
    return (dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)).isoformat()


def examine(server: ServerProcess, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "driftq", "doctor", *options, str(server.data)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)


@pytest.fixture
def a_day_ahead_once(shifted: ServerProcess, shift: ShiftedClock) -> ServerProcess:
    """A server that ran with the clock a day ahead, and not since the clock was set right."""
    shift.set(DAY_S)
    with shifted as server:
        assert server.client().post("/v1/topics", {"name": "orders"}).status == 201
        assert server.terminate(within_s=60) == 0
    shift.set(0)
    return shifted


def produce(client: Client, deadline: str) -> int:
    message = {"topic": "orders", "value": "a", "envelope": {"deadline": deadline}}
    return client.post("/v1/produce", message).status


def enqueue(client: Client, **fields: Any) -> str:
    asked = {"queue": "mail", "task": "send", "payload": 1, **fields}
    state: str = client.post("/v1/jobs", asked).body["state"]
    return state


@pytest.mark.clause("W9", "P2", "J11")
def test_one_start_a_day_ahead_makes_no_later_deadline_past_and_no_job_early(
    a_day_ahead_once: ServerProcess,
) -> None:
    with a_day_ahead_once as server:
        client = server.client()
        assert produce(client, in_an_hour()) == 200
        assert produce(client, "2020-01-01T00:00:00Z") == 400
        (delivery,) = server.stream("orders", "billing", "worker", timeout_s=60).take(1)
        assert delivery["value"] == "a"
        assert enqueue(client, run_at=in_an_hour()) == "scheduled"
        assert enqueue(client) == "ready"
        asked = {"queues": ["mail"], "owner": "w", "lease_ms": 60_000, "max": 10}
        claimed = client.post("/v1/jobs/claim", asked)
        assert [job["job_id"] for job in claimed.body["jobs"]] == ["job-1"]
        assert client.get("/v1/jobs/job-0").body["state"] == "scheduled"


@pytest.mark.clause("W9")
def test_a_log_ahead_of_the_clock_is_told_at_start_by_readyz_and_by_doctor(
    a_day_ahead_once: ServerProcess,
) -> None:
    sound = examine(a_day_ahead_once)
    assert "is sound" in sound.stdout
    assert "ahead of this machine's clock" in sound.stderr
    assert json.loads(examine(a_day_ahead_once, "--json").stdout)["clock_ahead_ms"] > (DAY_S - HOUR_S) * 1000
    with a_day_ahead_once as server:
        ready = server.client().get("/v1/readyz")
        assert (ready.status, ready.body["status"]) == (200, "ready")
        (warning,) = ready.body["warnings"]
        assert warning["code"] == "log_ahead_of_clock"
        assert warning["ahead_ms"] > (DAY_S - HOUR_S) * 1000
        told = [line for line in server.errors.splitlines() if "ahead of this machine's clock" in line]
        assert len(told) == 1
        assert "ERROR" in told[0]


@pytest.mark.clause("W9", "P2", "J11")
def test_a_clock_set_forward_is_an_error_and_not_believed_at_once(
    shifted: ServerProcess, shift: ShiftedClock
) -> None:
    with shifted as server:
        client = server.client()
        client.post("/v1/topics", {"name": "orders"})
        assert client.get("/v1/readyz").body == {"status": "ready"}
        shift.set(DAY_S)
        wait_until("the step is told", lambda: "the wall clock went forward by 86" in server.errors)
        shift.set(0)
        wait_until("its end is told", lambda: "the wall clock was set back" in server.errors)
        assert produce(client, in_an_hour()) == 200
        assert enqueue(client, run_at=in_an_hour()) == "scheduled"
