"""The produce gate: one key, one message, whatever is under way and however often it is asked."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.contract.serving import Answer, Server
from tests.harness import ServerProcess
from tests.support.shifted_clock import ShiftedClock


def message(topic: str, value: str, key: str = "k", **envelope: Any) -> dict[str, Any]:
    return {"topic": topic, "value": value, "envelope": {"idempotency_key": key} | envelope}


def stored(server: Server, topic: str) -> list[str]:
    return [line["value"] for line in server.get(f"/v1/topics/{topic}/records").lines]


def elsewhere(server: Server, path: str, body: Any) -> Answer:
    """The same server on a connection of its own."""
    other = Server(None)
    other.port = server.port
    try:
        return other.post(path, body)
    finally:
        other.hang_up()


@pytest.mark.clause("I1")
def test_the_requested_topic_the_tenant_and_the_key_are_the_identity(server: Server) -> None:
    topic, other = server.new_topic(), server.new_topic()
    bodies = [
        message(topic, "v"),
        message(topic, "v", tenant_id="acme"),
        message(topic, "v", "other"),
        message(other, "v", target_topic=topic),
    ]
    first = [server.post("/v1/produce", body).json for body in bodies]
    assert [one["offset"] for one in first] == [0, 1, 2, 3]
    again = [server.post("/v1/produce", body).json for body in bodies]
    assert again == [one | {"duplicate": True} for one in first]
    assert server.post("/v1/produce", message(topic, "v", tenant_id="")).json["offset"] == 0
    keyless = [server.post("/v1/produce", message(topic, "v", "")).json["offset"] for _ in range(2)]
    assert keyless == [4, 5]


@pytest.mark.clause("I2", "R7")
def test_a_duplicate_is_told_where_the_first_went(server: Server) -> None:
    topic, target = server.new_topic(), server.new_topic(3)
    first = server.post("/v1/produce", message(topic, "v", target_topic=target, partition_override=2)).json
    again = server.post("/v1/produce", message(topic, "v")).json
    assert again == {**first, "duplicate": True}
    assert (again["topic"], again["partition"]) == (target, 2)


@pytest.mark.clause("I2")
def test_a_produce_that_failed_leaves_its_key_free(server: Server) -> None:
    topic = server.new_topic()
    server.post("/v1/produce", message(topic, "v", partition_override=9)).refused(400, "INVALID_ARGUMENT")
    server.post("/v1/produce", message(topic, "v", target_topic="nowhere")).refused(404, "NOT_FOUND")
    assert server.post("/v1/produce", message(topic, "v")).json["duplicate"] is False


@pytest.mark.clause("I2", "I3")
def test_of_many_at_once_one_is_stored_and_all_are_told_where(server: Server) -> None:
    topic = server.new_topic()
    together = threading.Barrier(8)

    def send(_: int) -> Answer:
        together.wait()
        return elsewhere(server, "/v1/produce", message(topic, "v"))

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(send, range(8)))
    assert {answer.status for answer in answers} == {200}
    assert sorted(answer.json["duplicate"] for answer in answers) == [False] + [True] * 7
    assert {answer.json["offset"] for answer in answers} == {0}
    assert stored(server, topic) == ["v"]


@pytest.fixture(scope="module")
def routed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("routed") / "log"
    with Server(folder, router="tests.contract.routers:route", router_timeout_ms=4_000) as running:
        yield running


@pytest.mark.clause("I2")
def test_while_a_slow_router_thinks_the_key_is_pending(routed: Server) -> None:
    topic = routed.new_topic()
    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(elsewhere, routed, "/v1/produce", message(topic, "hang"))
        time.sleep(0.5)
        refused = routed.post("/v1/produce", message(topic, "hang")).refused(409, "FAILED_PRECONDITION")
        assert refused["reason"] == "idempotency_pending"
        batch = {
            "messages": [message(topic, "x", "free"), message(topic, "hang"), message(topic, "y", "free")]
        }
        results = routed.post("/v1/produce/batch", batch).json["results"]
        assert [one.get("reason", one.get("duplicate")) for one in results] == [
            False,
            "idempotency_pending",
            True,
        ]
        assert first.result(60).json["duplicate"] is False
    again = routed.post("/v1/produce", message(topic, "hang")).json
    assert (again["duplicate"], again["offset"]) == (True, first.result().json["offset"])
    assert stored(routed, topic) == ["x", "hang"]


@pytest.mark.clause("I4")
def test_another_payload_is_warned_of_or_refused(tmp_path: Path) -> None:
    env = {"DRIFTQ_IDEMPOTENCY_MISMATCH_MODE": "error"}
    for name, mode in (("warn", {}), ("error", env)):
        with ServerProcess(tmp_path / name, env=mode) as server:
            client = server.client()
            assert client.post("/v1/topics", {"name": "orders"}).status == 201
            assert client.post("/v1/produce", message("orders", "a")).status == 200
            same = client.post("/v1/produce", message("orders", "a"))
            assert (same.status, "payload_mismatch" in same.body) == (200, False)
            for other in (message("orders", "b"), message("orders", "a") | {"key": "user:1"}):
                answer = client.post("/v1/produce", other)
                if mode:
                    assert (answer.status, answer.body["error"]) == (409, "FAILED_PRECONDITION")
                    assert answer.body["reason"] == "idempotency_mismatch"
                else:
                    assert (answer.status, answer.body["payload_mismatch"]) == (200, True)
            lines = client.get("/v1/topics/orders/records").body.splitlines()
            assert len(lines) == 1
            counted = client.get("/v1/metrics").body.decode()
            assert mode or "driftq_payload_mismatches_total 2" in counted
            assert mode or "another payload" in server.errors


@pytest.mark.clause("I5", "I3")
def test_a_key_is_forgotten_after_its_time_also_across_a_kill(tmp_path: Path) -> None:
    clock = ShiftedClock(tmp_path / "clock")
    with ServerProcess(tmp_path / "data", env=clock.env) as server:
        client = server.client()
        client.post("/v1/topics", {"name": "orders"})
        client.post("/v1/produce", message("orders", "a"))
        server.restart()
        assert server.client().post("/v1/produce", message("orders", "a")).body["duplicate"] is True
        server.kill()
        clock.set(11 * 60)  # The server was away for longer than a key lives.
        server.start()
        assert server.client().post("/v1/produce", message("orders", "a")).body["duplicate"] is False
