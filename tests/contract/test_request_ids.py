"""Every reply names its request; a client's own id and trace are taken over."""

from __future__ import annotations

import json

import pytest

from tests.contract.serving import Server, Stream

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
OTHER = "00-11111111111111111111111111111111-2222222222222222-01"


@pytest.mark.clause("O2")
def test_a_reply_has_the_id_that_the_client_gave_its_request(server: Server) -> None:
    for method, path in (("GET", "/v1/healthz"), ("GET", "/v1/topics/missing"), ("POST", "/v1/produce")):
        answer = server.call(method, path, headers={"X-Request-Id": "order-17.a"})
        assert answer.headers["X-Request-Id"] == "order-17.a"


@pytest.mark.clause("O2")
@pytest.mark.parametrize("given", ["", "two words", "x" * 129, "a\tb", "ü"])
def test_an_id_that_is_missing_or_not_plain_is_made_up(server: Server, given: str) -> None:
    headers = {"X-Request-Id": given.encode().decode("latin-1")} if given else {}
    made = {server.call("GET", "/v1/healthz", headers=headers).headers["X-Request-Id"] for _ in range(3)}
    assert len(made) == 3
    assert given not in made


@pytest.mark.clause("O2")
def test_a_stream_has_an_id_too(server: Server) -> None:
    topic = server.new_topic()
    stream = Stream(server.port, topic=topic, group="g", owner="o")
    assert stream.headers["X-Request-Id"]
    stream.close()


@pytest.mark.clause("O3")
def test_the_trace_of_a_request_is_kept_with_its_messages_unless_they_have_one(server: Server) -> None:
    topic = server.new_topic()
    headers = {"traceparent": TRACE}
    server.call("POST", "/v1/produce", {"topic": topic, "value": "1"}, headers)
    own = {"topic": topic, "value": "2", "envelope": {"traceparent": OTHER}}
    server.call("POST", "/v1/produce", own, headers)
    keyed = {"topic": topic, "value": "4", "envelope": {"idempotency_key": "k"}}
    server.call("POST", "/v1/produce/batch", {"messages": [{"topic": topic, "value": "3"}, keyed]}, headers)
    server.call("POST", "/v1/produce", {"topic": topic, "value": "5"}, {"traceparent": "nonsense"})
    lines = server.get(f"/v1/topics/{topic}/records").lines
    traces = [line.get("envelope", {}).get("traceparent") for line in lines]
    assert traces == [TRACE, OTHER, TRACE, TRACE, None]


@pytest.mark.clause("O3")
def test_a_job_keeps_the_trace_that_enqueued_it(server: Server) -> None:
    body = {"queue": "traced", "task": "t", "payload": 1}
    server.call("POST", "/v1/jobs", body, {"traceparent": TRACE})
    server.call("POST", "/v1/jobs", body | {"traceparent": OTHER}, {"traceparent": TRACE})
    server.call("POST", "/v1/jobs", body)
    claim = {"queues": ["traced"], "owner": "o", "lease_ms": 1000, "max": 3}
    jobs = json.loads(server.post("/v1/jobs/claim", claim).content)["jobs"]
    assert [job.get("traceparent") for job in jobs] == [TRACE, OTHER, None]
