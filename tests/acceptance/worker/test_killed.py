"""Workers killed with SIGKILL at each step and started again: each effect counts once, or is reported."""

import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import driftq
from tests.acceptance.worker.mortal import STEPS
from tests.harness import ServerProcess

PATIENCE_S = 30.0
SCRIPT = Path(__file__).with_name("mortal.py")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("served") / "data") as running:
        yield running


@contextmanager
def worker(
    server: ServerProcess, folder: Path, effect: driftq.Effect, step: str
) -> Iterator[subprocess.Popen]:
    """A worker process, killed with SIGKILL at the end."""
    url = f"http://127.0.0.1:{server.port}"
    arguments = [sys.executable, str(SCRIPT), url, str(folder), str(effect), step]
    with (folder / "errors").open("ab") as errors:
        process = subprocess.Popen(
            arguments, stdout=subprocess.PIPE, stderr=errors, text=True, env=os.environ
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def hear(process: subprocess.Popen, line: str) -> None:
    assert process.stdout is not None
    for said in process.stdout:
        if said.strip() == line:
            return
    raise AssertionError(f"the worker ended without saying {line!r}")


def until_settled(client: driftq.Client) -> None:
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        groups = client.topic("orders").groups
        if groups and sum(group.lag for group in groups) == 0:
            return
        time.sleep(0.02)
    raise AssertionError("the message was not settled")


@pytest.fixture
def client(server: ServerProcess) -> Iterator[driftq.Client]:
    with driftq.Client(f"http://127.0.0.1:{server.port}") as client:
        client.create_topic("orders")
        yield client
        for topic in client.topics():
            client.call("DELETE", f"/v1/topics/{topic}")


def kill_and_restart(
    server: ServerProcess, client: driftq.Client, folder: Path, effect: driftq.Effect, step: str
) -> list[str]:
    """Produce, kill a worker at the step, let another finish; what the handler's runs wrote."""
    name = f"{effect}-{step.replace(' ', '-')}"
    client.produce("orders", name, idempotency_key=name)
    with worker(server, folder, effect, step) as first:
        hear(first, f"at {step}")
    with worker(server, folder, effect, "never") as second:
        hear(second, "works")
        until_settled(client)
    runs = folder / "runs"
    return runs.read_text().splitlines() if runs.exists() else []


@pytest.mark.clause("I8", "K6", "I9")
@pytest.mark.parametrize("step", STEPS)
def test_an_idempotent_effect_counts_once(
    server: ServerProcess, client: driftq.Client, tmp_path: Path, step: str
) -> None:
    runs = kill_and_restart(server, client, tmp_path, driftq.Effect.IDEMPOTENT, step)
    assert len(list(tmp_path.glob("effect-*"))) == 1
    assert len(runs) == (2 if step in ("after effect", "before commit") else 1)
    assert "dlq.orders" not in client.topics()


@pytest.mark.clause("K6")
@pytest.mark.parametrize("step", STEPS)
def test_an_unknown_effect_is_reported_and_never_guessed(
    server: ServerProcess, client: driftq.Client, tmp_path: Path, step: str
) -> None:
    runs = kill_and_restart(server, client, tmp_path, driftq.Effect.UNKNOWN, step)
    cut_off = step in ("after begin", "after effect", "before commit")
    assert len(runs) == (0 if step == "after begin" else 1)
    if cut_off:
        (letter,) = client.call("GET", "/v1/dlq/orders")["messages"]
        assert letter["envelope"]["dlq"]["last_error"].startswith("effect unknown: begun by ")
    else:
        assert "dlq.orders" not in client.topics()


@pytest.mark.clause("K6", "I8")
@pytest.mark.parametrize("step", ["after effect", "before ack"])
def test_a_transactional_effect_counts_once(
    server: ServerProcess, client: driftq.Client, tmp_path: Path, step: str
) -> None:
    kill_and_restart(server, client, tmp_path, driftq.Effect.TRANSACTIONAL, step)
    connection = sqlite3.connect(tmp_path / "effects.db")
    try:
        assert connection.execute("SELECT count(*) FROM effects").fetchone() == (1,)
    finally:
        connection.close()
