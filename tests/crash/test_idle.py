"""Processes that have nothing to do use next to no processor: what waits is woken, it does not look."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

import driftq
from tests.harness import ServerProcess

WINDOW_S = 3.0
SHARE_MAX = 0.01
PATIENCE_S = 60.0
WORKER = """
import driftq, threading
client = driftq.Client({url!r})
worker = driftq.Worker(client, group="billing")
worker.on("orders", effect=driftq.Effect.IDEMPOTENT)(lambda message, context: None)
jobs = driftq.Jobs(client)
jobs.task(queue="mail", name="send")(lambda: None)
worker.start()
jobs.start()
threading.Event().wait()
"""


def cpu_s(process: psutil.Process) -> float:
    """Of the process and its children, those that have ended as well."""
    used: float = sum(process.cpu_times()[:4])
    return used + sum(sum(child.cpu_times()[:2]) for child in process.children(recursive=True))


def becomes_idle(*processes: psutil.Process) -> bool:
    """In some stretch of time all of them together use less than a hundredth of it."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        before, began = sum(map(cpu_s, processes)), time.monotonic()
        time.sleep(WINDOW_S)  # Not a hope: this is the stretch that is measured.
        if sum(map(cpu_s, processes)) - before < SHARE_MAX * (time.monotonic() - began):
            return True
    return False


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)


@pytest.mark.clause("G5", "A8")
def test_an_idle_server_and_an_idle_worker_use_no_processor(tmp_path: Path) -> None:
    with (
        ServerProcess(tmp_path / "data") as server,
        driftq.Client(f"http://127.0.0.1:{server.port}") as client,
    ):
        client.create_topic("orders")
        client.create_topic("others")
        client.produce_many("others", ["waits", "is held"])
        held = server.stream("others", "held", "me", lease_ms=3_600_000).take(1)
        assert held[0]["value"] == "waits"
        client.jobs.enqueue("later", "send", {}, delay_s=3_600)
        done = client.jobs.enqueue("mail", "send", {}).job_id
        client.produce("orders", "one")
        script = WORKER.format(url=client.url)
        with (tmp_path / "worker.err").open("wb") as errors:
            process = subprocess.Popen([sys.executable, "-c", script], env=os.environ, stderr=errors)
        try:
            until(lambda: client.jobs.get(done).state == "succeeded")
            until(lambda: not any(group.lag for group in client.topic("orders").groups))
            worker = psutil.Process(process.pid)
            assert becomes_idle(psutil.Process(server.process.pid)), "the server"
            assert becomes_idle(worker), "the worker"
            server.kill()
            assert becomes_idle(worker), "the worker while its server is away"
        finally:
            process.kill()
            process.wait()
