"""What a kill must not take: leases, attempts, last errors, keys, envelopes, empty topics."""

from typing import Any

import pytest

from tests.harness import ServerProcess

ENVELOPE = {
    "run_id": "run-7",
    "step_id": "step-2",
    "parent_step_id": "step-1",
    "tenant_id": "acme",
    "idempotency_key": "order-1",
    "deadline": "2100-01-01T12:00:00Z",
    "retry_policy": {"max_attempts": 5, "backoff_ms": 250, "max_backoff_ms": 5000},
    "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
}


def produce(server: ServerProcess, *values: str) -> None:
    messages = [{"topic": "orders", "value": value} for value in values]
    answer = server.client().post("/v1/produce/batch", {"messages": messages})
    assert (answer.status, answer.body["failed"]) == (200, 0), answer


def settle(server: ServerProcess, how: str, delivery: dict[str, Any], *, owner: str, **more: Any) -> int:
    place = {
        "partition": delivery["partition"],
        "offset": delivery["offset"],
        "attempt": delivery["attempts"],
    }
    body = {"topic": "orders", "group": "billing", "owner": owner, **place, **more}
    return server.client().post(f"/v1/{how}", body).status


@pytest.mark.clause("G5", "W3", "A3")
def test_a_worker_that_outlives_the_server_acks_what_it_holds(server: ServerProcess) -> None:
    produce(server, *"abcdef")
    held = server.stream("orders", "billing", "worker", lease_ms=60_000, prefetch=4).take(4)
    server.restart()
    assert settle(server, "ack", held[0], owner="somebody else") == 409
    assert [settle(server, "ack", delivery, owner="worker") for delivery in held[:3]] == [204, 204, 204]
    # The fourth is still leased to the worker, so another one gets what was never delivered.
    rest = server.stream("orders", "billing", "other", lease_ms=60_000).take(2)
    assert [delivery["value"] for delivery in rest] == ["e", "f"]
    server.restart()
    assert settle(server, "ack", held[3], owner="worker") == 204
    (view,) = server.client().get("/v1/topics/orders").body["groups"]
    assert (view["acked"], view["lag"], view["in_flight"]) == (3, 2, 2)


@pytest.mark.clause("A3", "G4")
def test_acks_out_of_order_leave_no_hole_behind(server: ServerProcess) -> None:
    produce(server, *"abcde")
    held = server.stream("orders", "billing", "worker", lease_ms=600_000).take(5)
    for place in (4, 1, 3):
        assert settle(server, "ack", held[place], owner="worker") == 204
    for place in (0, 2):
        assert settle(server, "lease/extend", held[place], owner="worker", lease_ms=100) == 204
    server.restart()
    again = server.stream("orders", "billing", "worker", lease_ms=60_000).take(2)
    assert [(delivery["value"], delivery["attempts"]) for delivery in again] == [("a", 2), ("c", 2)]
    assert [settle(server, "ack", delivery, owner="worker") for delivery in again] == [204, 204]
    server.restart()
    (view,) = server.client().get("/v1/topics/orders").body["groups"]
    assert (view["acked"], view["lag"]) == (4, 0)


@pytest.mark.clause("D1", "W3", "A5", "A6")
def test_attempts_and_last_error_are_counted_on_across_restarts(server: ServerProcess) -> None:
    produce(server, "nacked", "forgotten")
    nacked, forgotten = server.stream("orders", "billing", "worker", lease_ms=600_000).take(2)
    assert settle(server, "nack", nacked, owner="worker", reason="out of milk") == 204
    assert settle(server, "lease/extend", forgotten, owner="worker", lease_ms=100) == 204
    seen: dict[str, list[tuple[int, str]]] = {"nacked": [], "forgotten": []}
    for _ in range(2):
        server.restart()
        # The lease is longer than the first one: until the second comes, the first does not come again.
        for delivery in server.stream("orders", "billing", "worker", lease_ms=6_000).take(2):
            seen[delivery["value"]].append((delivery["attempts"], delivery["last_error"]))
    assert seen["nacked"] == [(2, "out of milk"), (3, "out of milk")]
    assert seen["forgotten"] == [(2, "ack_timeout"), (3, "ack_timeout")]


@pytest.mark.clause("W2", "E1", "I3", "T2")
def test_messages_keys_and_empty_topics_are_what_they_were(server: ServerProcess) -> None:
    client = server.client()
    assert client.post("/v1/topics", {"name": "empty", "partitions": 7}).status == 201
    message = {"topic": "orders", "key": "user:1", "value": "two coffees", "envelope": ENVELOPE}
    first = client.post("/v1/produce", message).body
    server.restart()
    client = server.client()
    assert client.get("/v1/topics").body == {"topics": ["empty", "orders"]}
    assert len(client.get("/v1/topics/empty").body["partitions"]) == 7
    again = client.post("/v1/produce", message).body
    assert again == {**first, "duplicate": True}
    (delivery,) = server.stream("orders", "billing", "worker").take(1)
    assert (delivery["key"], delivery["value"], delivery["envelope"]) == ("user:1", "two coffees", ENVELOPE)
    assert (
        client.post("/v1/produce", {"topic": "orders", "value": "next"}).body["offset"] == first["offset"] + 1
    )
