"""`driftq worker` and `driftq job work`: a worker of a module, ended by SIGTERM."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import driftq
from tests.harness import ServerProcess

APP = """
import driftq

client = driftq.Client({url!r})
worker = driftq.Worker(client, group="billing")
jobs = driftq.Jobs(client)


@worker.on("orders", effect=driftq.Effect.IDEMPOTENT)
def charge(message, context):
    return "charged"


@jobs.task(queue="mail")
def send(to):
    return "sent"
"""
PATIENCE_S = 60.0


def command(folder: Path, *arguments: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "driftq", *arguments],
        cwd=folder,
        env=os.environ,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.clause("I8", "J1")
def test_workers_run_from_the_shell_and_end_on_sigterm(tmp_path: Path) -> None:
    with (
        ServerProcess(tmp_path / "data") as server,
        driftq.Client(f"http://127.0.0.1:{server.port}") as client,
    ):
        (tmp_path / "billing.py").write_text(APP.format(url=client.url))
        client.create_topic("orders")
        client.produce("orders", "one")
        job_id = client.jobs.enqueue("mail", "send", {"to": "a@b.c"}).job_id
        working = [
            command(tmp_path, "worker", "billing:worker"),
            command(tmp_path, "job", "work", "billing:jobs"),
        ]
        end = time.monotonic() + PATIENCE_S
        while client.jobs.get(job_id).state != "succeeded" or not (
            (groups := client.topic("orders").groups) and sum(group.lag for group in groups) == 0
        ):
            assert time.monotonic() < end, "nothing was done"
            time.sleep(0.05)
        for process in working:
            process.send_signal(signal.SIGTERM)
        assert [process.wait(PATIENCE_S) for process in working] == [0, 0]
        for process in working:
            assert process.stderr is not None
            process.stderr.close()


@pytest.mark.clause("I8")
def test_a_worker_whose_topic_is_missing_says_so_and_ends(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        (tmp_path / "billing.py").write_text(APP.format(url=f"http://127.0.0.1:{server.port}"))
        process = command(tmp_path, "worker", "billing:worker")
        _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert "INFO driftq.worker: worker " in errors
    assert "orders (idempotent, concurrency 8, prefetch 16): starts" in errors
    assert "ended, because topic 'orders' does not exist; create it, then start again" in errors
    assert errors.count("does not exist") == 2, "in the log when it happens, and last why the command ends"
    assert "Traceback" not in errors


@pytest.mark.parametrize(
    ("name", "said"),
    [("billing", "module:app"), ("nowhere:worker", "no module"), ("os:path", "not a Worker")],
)
def test_what_is_no_worker_is_refused(tmp_path: Path, name: str, said: str) -> None:
    process = command(tmp_path, "worker", name)
    _, errors = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, said in errors) == (1, True)
