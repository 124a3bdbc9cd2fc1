"""The server as a process: its lock, its signals, its modes."""

import time
from pathlib import Path
from threading import Thread

import pytest

from tests.harness import Broken, ServerProcess


@pytest.mark.clause("W6")
def test_a_second_server_on_the_same_folder_exits_at_once_and_says_why(server: ServerProcess) -> None:
    second = ServerProcess(server.data)
    second.starts = server.starts  # Its own output files.
    second.spawn()
    assert second.wait_exit() != 0
    assert f"{server.log_folder} is in use by another DriftQ server" in second.errors
    assert "Traceback" not in second.errors
    assert server.client().post("/v1/produce", {"topic": "orders", "value": "still here"}).status == 200


def test_the_lock_ends_with_its_process(server: ServerProcess) -> None:
    for _ in range(3):
        server.restart()
    assert server.client().get("/v1/topics").body == {"topics": ["orders"]}


@pytest.mark.clause("H6", "H3")
def test_sigterm_ends_the_streams_and_exits_with_0(server: ServerProcess) -> None:
    streams = [server.stream("orders", f"group-{number}", "me") for number in range(5)]
    ends: list[str] = []
    readers = [Thread(target=lambda stream=stream: ends.append(_end_of(stream))) for stream in streams]
    for reader in readers:
        reader.start()
    idle = server.client()
    assert idle.get("/v1/healthz").status == 200
    assert server.terminate(within_s=60) == 0
    for reader in readers:
        reader.join(30)
    assert ends == ["ended"] * 5
    assert "Traceback" not in server.errors
    server.start()
    assert server.client().get("/v1/topics").body == {"topics": ["orders"]}


@pytest.mark.clause("H6", "P1")
def test_what_is_confirmed_while_the_server_stops_is_kept(server: ServerProcess) -> None:
    confirmed: list[str] = []

    def produce_until_refused(name: str) -> None:
        client = server.client()
        for number in range(100_000):
            value = f"{name}-{number}"
            try:
                answer = client.post("/v1/produce", {"topic": "orders", "value": value})
            except Broken:
                return
            if answer.status != 200:
                assert answer.status == 503
                return
            confirmed.append(value)

    producers = [Thread(target=produce_until_refused, args=(f"p{number}",)) for number in range(4)]
    for producer in producers:
        producer.start()
    while len(confirmed) < 100:
        time.sleep(0.01)
    assert server.terminate(within_s=60) == 0
    for producer in producers:
        producer.join()
    server.start()
    found = server.stream("orders", "check", "me", prefetch=100_000, lease_ms=60_000)
    total = server.client().get("/v1/topics/orders").body["partitions"][0]["messages"]
    assert set(confirmed) <= {delivery["value"] for delivery in found.take(total)}


def _end_of(stream: object) -> str:
    try:
        for _ in stream:  # type: ignore[attr-defined]
            pass
    except Broken as error:
        return f"broke off: {error!r}"
    return "ended"


@pytest.mark.clause("W5")
@pytest.mark.parametrize("level", ["always", "interval", "off"])
def test_every_fsync_level_keeps_what_was_confirmed_when_killed(tmp_path: Path, level: str) -> None:
    with ServerProcess(tmp_path / "data", "--fsync", level) as server:
        client = server.client()
        version = client.get("/v1/version").body
        assert (version["fsync"], version["wal_enabled"]) == (level, True)
        client.post("/v1/topics", {"name": "orders"})
        for number in range(50):
            assert client.post("/v1/produce", {"topic": "orders", "value": str(number)}).status == 200
        server.restart()
        assert len(server.stream("orders", "check", "me").take(50)) == 50


@pytest.mark.clause("W7")
def test_without_a_wal_a_restart_starts_from_nothing(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", "--no-wal") as server:
        client = server.client()
        assert client.get("/v1/version").body["wal_enabled"] is False
        assert client.post("/v1/topics", {"name": "orders"}).status == 201
        assert client.post("/v1/produce", {"topic": "orders", "value": "gone tomorrow"}).status == 200
        assert server.stream("orders", "check", "me").take(1)[0]["value"] == "gone tomorrow"
        assert "nothing is kept" in server.output
        server.restart()
        assert server.client().get("/v1/topics").body == {"topics": []}
        assert not server.data.exists()
