"""Produce: what is stored, what is refused, what comes out at the other end."""

import pytest

from tests.contract.serving import Server

ENVELOPE = {
    "run_id": "run_123",
    "step_id": "step_7",
    "parent_step_id": "step_3",
    "tenant_id": "tenant_a",
    "idempotency_key": "tenant_a:run_123:step_7",
    "partition_override": 1,
    "deadline": "2099-12-21T12:00:00Z",
    "retry_policy": {"max_attempts": 5, "backoff_ms": 250, "max_backoff_ms": 5000},
    "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
}


@pytest.mark.clause("P1", "H1")
def test_a_produced_message_says_where_it_is_and_is_there(server: Server) -> None:
    topic = server.new_topic()
    answer = server.post("/v1/produce", {"topic": topic, "value": "payload"})
    assert answer.status == 200
    assert answer.json == {
        "status": "produced",
        "topic": topic,
        "partition": 0,
        "offset": 0,
        "duplicate": False,
    }
    (line,) = server.get(f"/v1/topics/{topic}/records").lines
    assert (line["offset"], line["value"]) == (0, "payload")


@pytest.mark.clause("E1", "H1")
def test_an_envelope_arrives_as_it_was_sent(server: Server) -> None:
    topic = server.new_topic(2)
    server.produce(topic, "näh \u0000 😀", "kéy", **ENVELOPE)
    with server.consume(topic) as stream:
        line = stream.next()
    assert line == {
        "partition": 1,
        "offset": 0,
        "attempts": 1,
        "key": "kéy",
        "value": "näh \u0000 😀",
        "last_error": "",
        "envelope": ENVELOPE,
    }


@pytest.mark.clause("E1", "H1")
def test_a_query_says_the_same_as_a_body(server: Server) -> None:
    topic = server.new_topic(2)
    flat = {name: text for name, text in ENVELOPE.items() if name not in ("retry_policy", "tenant_id")}
    del flat["idempotency_key"]
    answer = server.post(
        "/v1/produce",
        topic=topic,
        value="a b+c&d=é",
        key="k",
        tenant="tenant_a",
        idem_key="tenant_a:run_123:step_7",
        retry_max_attempts=5,
        retry_backoff_ms=250,
        retry_max_backoff_ms=5000,
        **flat,
    )
    assert answer.status == 200, answer
    with server.consume(topic) as stream:
        line = stream.next()
    assert (line["value"], line["envelope"]) == ("a b+c&d=é", ENVELOPE)


@pytest.mark.clause("H1")
def test_a_body_wins_over_the_query(server: Server) -> None:
    topic = server.new_topic()
    assert (
        server.post("/v1/produce", {"topic": topic, "value": "body"}, topic="none", value="q").status == 200
    )
    assert [line["value"] for line in server.get(f"/v1/topics/{topic}/records").lines] == ["body"]


@pytest.mark.clause("H1")
def test_null_is_as_good_as_nothing(server: Server) -> None:
    topic = server.new_topic()
    nulls = dict.fromkeys(ENVELOPE)
    for envelope in (None, nulls, {"retry_policy": {"max_attempts": None}}):
        body = {"topic": topic, "value": "v", "key": None, "envelope": envelope}
        assert server.post("/v1/produce", body).status == 200
    first = server.get(f"/v1/topics/{topic}/records").lines[0]
    assert first["key"] == ""
    assert "envelope" not in first
    assert "routing" not in first


@pytest.mark.clause("H1")
def test_any_headers_and_content_types_are_taken(server: Server) -> None:
    topic = server.new_topic()
    headers = {"Content-Type": "text/plain", "Idempotency-Key": "x", "X-Odd": "y", "Accept": "image/png"}
    body = b'{"topic":"%b","value":"v"}' % topic.encode()
    assert server.call("POST", "/v1/produce", body, headers).status == 200
    assert server.produce(topic, "again")["duplicate"] is False


@pytest.mark.clause("P2")
@pytest.mark.parametrize(
    "deadline", ["2001-01-01T00:00:00Z", "2099-01-01T00:00:00", "tomorrow", "2099-13-01T00:00:00Z"]
)
def test_a_deadline_that_is_past_or_none_at_all_is_refused(server: Server, deadline: str) -> None:
    topic = server.new_topic()
    body = {"topic": topic, "value": "v", "envelope": {"deadline": deadline}}
    server.post("/v1/produce", body).refused(400, "INVALID_ARGUMENT")
    assert server.get(f"/v1/topics/{topic}/records").content == b""


@pytest.mark.clause("P4")
def test_a_full_partition_says_when_to_come_again(small_server: Server) -> None:
    topic = small_server.new_topic(2)
    for _ in range(2):
        small_server.produce(topic, "v")
    full = small_server.post("/v1/produce", {"topic": topic, "value": "v"})
    error = full.refused(429, "RESOURCE_EXHAUSTED")
    assert error["reason"] == "overloaded"
    assert int(full.headers["Retry-After"]) * 1000 >= error["retry_after_ms"] > 0
    small_server.produce(topic, "v", partition_override=1)
    with small_server.consume(topic) as stream:
        line = next(line for line in stream.take(3) if line["partition"] == 0)
        assert small_server.settle("ack", topic, line).status == 204
    small_server.produce(topic, "v")


@pytest.mark.clause("P4")
def test_a_message_larger_than_the_limit_gets_the_same_answer(small_server: Server) -> None:
    topic = small_server.new_topic()
    body = {"topic": topic, "value": "x" * 15, "key": "sixsix"}
    small_server.post("/v1/produce", body).refused(429, "RESOURCE_EXHAUSTED")
    assert small_server.post("/v1/produce", body | {"key": "fives"}).status == 200


@pytest.mark.clause("E2")
def test_target_topic_reroutes(server: Server) -> None:
    topic, target = server.new_topic(), server.new_topic()
    assert server.produce(topic, "moved", target_topic=target)["topic"] == target
    assert server.get(f"/v1/topics/{topic}/records").content == b""
    (line,) = server.get(f"/v1/topics/{target}/records").lines
    assert (line["value"], line["requested_topic"]) == ("moved", topic)
    body = {"topic": topic, "value": "v", "envelope": {"target_topic": "nowhere"}}
    server.post("/v1/produce", body).refused(404, "NOT_FOUND")


@pytest.mark.clause("E3", "E4")
@pytest.mark.parametrize(
    ("where", "name"),
    [
        ("body", "valeu"),
        ("envelope", "run"),
        ("envelope", "labels"),
        ("envelope", "dlq"),
        ("retry_policy", "max"),
    ],
)
def test_unknown_fields_are_named(server: Server, where: str, name: str) -> None:
    policy = {name: 1} if where == "retry_policy" else {}
    envelope = {"retry_policy": policy} | ({name: {}} if where == "envelope" else {})
    body = {"topic": "t", "value": "v", "envelope": envelope} | ({name: 1} if where == "body" else {})
    refused = server.post("/v1/produce", body).refused(400, "INVALID_ARGUMENT")
    assert refused["message"].endswith(f"{name}: unknown field")


@pytest.mark.clause("E3")
def test_unknown_query_names_are_named_on_every_route(server: Server) -> None:
    gets = (
        "healthz",
        "version",
        "topics",
        "consume",
        "readyz",
        "metrics",
        "openapi.json",
        "docs",
        "topics/x/records",
    )
    posts = (
        "topics",
        "produce",
        "produce/batch",
        "ack",
        "nack",
        "ack/batch",
        "lease/extend",
        "topics/x/readers",
    )
    for method, paths in (("GET", gets), ("POST", posts)):
        for path in paths:
            for body in (None, b"{}"):
                error = server.call(method, f"/v1/{path}?tpic=x", body).refused(400, "INVALID_ARGUMENT")
                assert "tpic" in error["message"] or body is not None, path


@pytest.mark.clause("I1", "I2", "I4")
def test_a_repeated_key_is_told_as_a_duplicate(server: Server) -> None:
    topic = server.new_topic()
    first = server.produce(topic, "v", idempotency_key="k")
    again = server.produce(topic, "v", idempotency_key="k")
    assert again == first | {"duplicate": True}
    other = server.produce(topic, "w", idempotency_key="k")
    assert other == first | {"duplicate": True, "payload_mismatch": True}
    assert server.produce(topic, "v", idempotency_key="k", tenant_id="t")["duplicate"] is False
    assert len(server.get(f"/v1/topics/{topic}/records").lines) == 2


@pytest.mark.clause("H1", "H2")
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b'"text"',
        b"{",
        b"{} {}",
        b"\xff",
        b'{"topic":"\xff","value":"v"}',
        b'{"topic":"t","value":"\\ud800"}',
        b'{"topic":"t","value":NaN}',
        b'{"topic":"t","value":1}',
        b'{"topic":"","value":"v"}',
        b'{"value":"v"}',
        b'{"topic":"t"}',
        b'{"topic":"t","value":null}',
        b'{"topic":"t","value":"v","envelope":[]}',
        b'{"topic":"t","value":"v","envelope":{"partition_override":1.5}}',
        b'{"topic":"t","value":"v","envelope":{"partition_override":' + b"9" * 400 + b"}}",
        b'{"topic":"t","value":"v","envelope":{"retry_policy":{"backoff_ms":-1}}}',
        b'{"topic":"t","value":"v","envelope":{"retry_policy":{"backoff_ms":9,"max_backoff_ms":1}}}',
        b'{"topic":' + b"[" * 100_000,
        b'{"topic":"t","value":"v","x":' + b'{"a":' * 50_000,
    ],
)
def test_what_is_no_message_is_refused(server: Server, body: bytes) -> None:
    server.call("POST", "/v1/produce", body).refused(400, "INVALID_ARGUMENT")


@pytest.mark.clause("H1", "H2")
@pytest.mark.parametrize(
    "query",
    [
        "topic=t",
        "topic=&value=v",
        "topic=t&value=v&value=w",
        "topic=t&value=%ff",
        "topic=t&value=%ed%a0%80",
        "topic=t&value=%zz",
        "topic=t&value=v&partition_override=3.5",
        "topic=t&value=v&partition_override=abc",
        "topic=t&value=v&partition_override=",
        "topic=t&value=v&partition_override=9223372036854775808",
        "topic=t&value=v&tenant=a&tenant_id=a",
        "topic=t&value=v&envelope=%7B%7D",
    ],
)
def test_what_is_no_query_is_refused(server: Server, query: str) -> None:
    server.call("POST", f"/v1/produce?{query}").refused(400, "INVALID_ARGUMENT")


@pytest.mark.clause("D4", "H1")
def test_clients_cannot_write_dead_letters(server: Server) -> None:
    topic = server.new_topic()
    server.post("/v1/produce", {"topic": "dlq.x", "value": "v"}).refused(400, "INVALID_ARGUMENT")
    body = {"topic": topic, "value": "v", "envelope": {"target_topic": f"dlq.{topic}"}}
    server.post("/v1/produce", body).refused(400, "INVALID_ARGUMENT")
