"""A machine whose clock jumps: nothing ends early, and nothing waits for the old hour to come again."""

import time
from pathlib import Path

import pytest

from tests.harness import ServerProcess

HOUR_S = 3600

# Stands in for the clock of the machine: shifted by the number of seconds that a file holds.
SHIFTED_CLOCK = """
import os, time
_true = time.time_ns
def _shifted():
    with open(os.environ["CLOCK_SHIFT_FILE"]) as file:
        return _true() + int(file.read()) * 1_000_000_000
time.time_ns = _shifted
time.time = lambda: _shifted() / 1e9
"""


@pytest.fixture
def shift(tmp_path: Path) -> Path:
    (tmp_path / "clock").mkdir()
    (tmp_path / "clock" / "sitecustomize.py").write_text(SHIFTED_CLOCK)
    file = tmp_path / "shift"
    file.write_text("0")
    return file


@pytest.fixture
def shifted(tmp_path: Path, shift: Path) -> ServerProcess:
    env = {"PYTHONPATH": str(tmp_path / "clock"), "CLOCK_SHIFT_FILE": str(shift)}
    return ServerProcess(tmp_path / "data", env=env)


def leased(server: ServerProcess, *, lease_ms: int) -> None:
    client = server.client()
    client.post("/v1/topics", {"name": "orders"})
    message = {"topic": "orders", "value": "a", "envelope": {"idempotency_key": "order-1"}}
    assert client.post("/v1/produce", message).body["duplicate"] is False
    server.stream("orders", "billing", "worker", lease_ms=lease_ms).take(1)


@pytest.mark.clause("W9")
def test_a_clock_set_forward_ends_no_lease_and_forgets_no_key(shifted: ServerProcess, shift: Path) -> None:
    with shifted as server:
        leased(server, lease_ms=60_000)
        shift.write_text(str(HOUR_S))
        client = server.client()
        message = {"topic": "orders", "value": "a", "envelope": {"idempotency_key": "order-1"}}
        assert client.post("/v1/produce", message).body["duplicate"] is True
        ack = {"topic": "orders", "group": "billing", "partition": 0, "offset": 0, "owner": "worker"}
        assert client.post("/v1/ack", ack).status == 204


@pytest.mark.clause("W9")
def test_a_clock_set_back_before_a_restart_delays_nothing(shifted: ServerProcess, shift: Path) -> None:
    with shifted as server:
        leased(server, lease_ms=1_000)
        server.kill()
        shift.write_text(str(-HOUR_S))
        server.start()
        began = time.monotonic()
        (again,) = server.stream("orders", "billing", "worker", timeout_s=10).take(1)
        assert (again["attempts"], again["last_error"]) == (2, "ack_timeout")
        assert time.monotonic() - began < 5
