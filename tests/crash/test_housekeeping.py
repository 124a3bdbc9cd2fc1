"""Housekeeping with real processes: killed, with a server that is killed, and read from meanwhile."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread

import psutil
import pytest

from driftq.model.options.limits import Limits
from driftq.repair.backup import back_up
from tests.harness import ServerProcess

VALUE = "x" * 1_000
SMALL = {"DRIFTQ_BROKER_SEGMENT_BYTES": str(4 << 20)}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "data", env=SMALL) as started:
        client = started.client()
        assert client.post("/v1/topics", {"name": "orders", "partitions": 2}).status == 201
        yield started


def fill(server: ServerProcess, *, batches: int, first: int = 0) -> int:
    """Produce messages that are told apart by their numbers; the number behind the last."""
    client = server.client()
    for batch in range(batches):
        messages = [
            {"topic": "orders", "key": f"user:{number}", "value": f"{number}-{VALUE}"}
            for number in range(first + batch * 500, first + (batch + 1) * 500)
        ]
        answer = client.post("/v1/produce/batch", {"messages": messages})
        assert (answer.status, answer.body["failed"]) == (200, 0)
    return first + batches * 500


def numbers(server: ServerProcess) -> list[int]:
    found: list[int] = []
    for partition in range(2):
        answer = server.client().get("/v1/topics/orders/records", partition=partition)
        assert answer.status == 200
        found += [int(json.loads(line)["value"].split("-")[0]) for line in answer.body.splitlines()]
    return sorted(found)


def wait_for(reached: object, *, seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not reached():  # type: ignore[operator]
        assert time.monotonic() < end, "it does not come"
        time.sleep(0.005)


def covered(server: ServerProcess) -> int:
    """The last segment that the manifest stands for."""
    manifest = server.log_folder / "MANIFEST"
    return int(json.loads(manifest.read_text().split("\n", 1)[1])["segment"]) if manifest.exists() else 0


def used_bytes(server: ServerProcess) -> int:
    used = 0
    for file in server.log_folder.iterdir():
        with suppress(FileNotFoundError):
            used += file.stat().st_blocks * 512
    return used


def housekeepers(server: ServerProcess) -> list[psutil.Process]:
    return psutil.Process(server.process.pid).children()


@pytest.mark.clause("W6", "W8")
def test_a_restart_reads_the_snapshot_and_the_tail_only(server: ServerProcess) -> None:
    count = fill(server, batches=30)
    wait_for(lambda: covered(server) >= 2)
    server.restart()
    assert numbers(server) == list(range(count))
    count = fill(server, batches=2, first=count)
    assert numbers(server) == list(range(count))


@pytest.mark.clause("W6")
def test_a_housekeeper_that_is_killed_again_and_again_harms_nothing(server: ServerProcess) -> None:
    count = 0
    killed = 0
    for _ in range(12):
        count = fill(server, batches=6, first=count)
        for child in housekeepers(server):
            os.kill(child.pid, signal.SIGKILL)
            killed += 1
    assert killed
    wait_for(lambda: covered(server) >= 1)
    assert numbers(server) == list(range(count))
    server.restart()
    assert numbers(server) == list(range(count))
    assert "housekeeping failed and is tried again" in Path(f"{server.data}-1.err").read_text()


@pytest.mark.clause("W6", "P1")
@pytest.mark.parametrize("both", [False, True], ids=["server", "both"])
def test_a_server_that_is_killed_while_it_is_cleaned_up_behind_it_loses_nothing(
    server: ServerProcess, both: bool
) -> None:
    count = 0
    for turn in range(4):
        count = fill(server, batches=9, first=count)
        if turn % 2:
            wait_for(lambda: housekeepers(server) or covered(server) >= 1)
        children = housekeepers(server)
        if both:
            for child in children:
                os.kill(child.pid, signal.SIGKILL)
        server.kill()
        _, alive = psutil.wait_procs(children, timeout=30)
        assert not alive, "a housekeeper outlived its server"
        server.start()
        assert numbers(server) == list(range(count))


@pytest.mark.clause("T7", "W6")
def test_disk_follows_what_is_kept(tmp_path: Path) -> None:
    env = {"DRIFTQ_BROKER_RETENTION_MS": "1500", "DRIFTQ_BROKER_IDEMPOTENCY_TTL_MS": "1000"} | SMALL
    with ServerProcess(tmp_path / "data", env=env) as server:
        client = server.client()
        assert client.post("/v1/topics", {"name": "orders", "partitions": 2}).status == 201
        assert client.post("/v1/topics", {"name": "stuck"}).status == 201
        server.stream("stuck", "nobody", "w").close()
        assert client.post("/v1/produce", {"topic": "stuck", "value": "still here"}).status == 200
        count = 0
        for _ in range(6):
            count = fill(server, batches=12, first=count)
            time.sleep(0.3)

        def small() -> bool:
            fill(server, batches=1, first=count)
            time.sleep(0.1)
            return used_bytes(server) < 40 << 20 and covered(server) >= 8

        wait_for(small)
        server.restart()
        lines = server.client().get("/v1/topics/stuck/records").body.splitlines()
        assert [json.loads(line)["value"] for line in lines] == ["still here"]
        assert "Traceback" not in server.errors


@pytest.mark.clause("T7")
def test_below_the_floor_of_free_space_produce_is_503_and_the_rest_goes_on(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", env=SMALL) as server:
        client = server.client()
        assert client.post("/v1/topics", {"name": "orders"}).status == 201
        assert client.post("/v1/produce", {"topic": "orders", "value": "v"}).status == 200
    full = ServerProcess(tmp_path / "data", env=SMALL | {"DRIFTQ_BROKER_FREE_BYTES_MIN": str(1 << 60)})
    with full:
        client = full.client()
        message = {"topic": "orders", "value": "v"}
        wait_for(lambda: client.post("/v1/produce", message).status == 503)
        refused = client.post("/v1/produce", message)
        assert (refused.body["error"], refused.body["reason"]) == ("UNAVAILABLE", "disk_full")
        batch = client.post("/v1/produce/batch", {"messages": [message]})
        assert (batch.status, batch.body["reason"]) == (503, "disk_full")
        (delivery, *_) = full.stream("orders", "g", "w").take(1)
        ack = {"topic": "orders", "group": "g", "owner": "w", "partition": 0, "offset": delivery["offset"]}
        assert client.post("/v1/ack", ack).status == 204
        assert "produce is refused from now on" in full.errors


@pytest.mark.clause("W6")
def test_a_backup_under_load_holds_all_that_was_confirmed_before_it(
    server: ServerProcess, tmp_path: Path
) -> None:
    count = fill(server, batches=20)
    writer = Thread(target=fill, args=(server,), kwargs={"batches": 30, "first": count})
    writer.start()
    made = back_up(str(server.data), str(tmp_path / "copy"), limits=Limits())
    writer.join()
    assert made.findings.messages >= count
    with ServerProcess(tmp_path / "copy") as copy:
        found = numbers(copy)
        assert found == list(range(len(found)))
        assert len(found) >= count
