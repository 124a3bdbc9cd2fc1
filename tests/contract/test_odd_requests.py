"""Thousands of odd requests: only documented answers, never a 500, never silence."""

import json
import re
from http.client import HTTPConnection
from typing import Any
from urllib.parse import quote

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from driftq.http.api.openapi import document
from driftq.http.api.router import ROUTES
from tests.contract.serving import PATIENCE_S, Server

DOCUMENT = document(ROUTES, version="test")
STATUSES = {
    (method.upper(), path): {int(status) for status in operation["responses"]}
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
}
NAMES = sorted(
    {field for schema in DOCUMENT["components"]["schemas"].values() for field in schema.get("properties", {})}
    | {"tenant", "idem_key", "retry_backoff_ms", "limit", "after", "from", "to"}
)
TOPIC = "odd"
WAIT_MS_MAX = 20

many = settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


@pytest.fixture(scope="module")
def crowded(server: Server) -> Server:
    """A server with a topic that odd requests may hit."""
    assert server.post("/v1/topics", {"name": TOPIC, "partitions": 3}).status == 201
    return server


words = st.sampled_from(
    [TOPIC, "g", "o", "", ".", "dlq.odd", "a\nb", "é", "😀", "\x00", "null", "1e5", "x" * 300]
)
texts = words | st.text(max_size=20)
numbers = st.sampled_from([0, 1, -1, 2**31, 2**63, -(2**63) - 1, 10**400]) | st.integers(-5, 5)
leaves = st.none() | st.booleans() | numbers | st.floats() | texts
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=8,
)
names = st.sampled_from(NAMES) | st.text(max_size=8)
objects = st.dictionaries(names, values | st.dictionaries(names, values, max_size=4), max_size=6)
likely = st.fixed_dictionaries(
    {"topic": st.just(TOPIC) | texts, "value": st.just("v") | values},
    optional={
        "group": texts,
        "owner": texts,
        "partition": numbers,
        "offset": numbers,
        "name": texts,
        "envelope": st.dictionaries(names, values, max_size=4),
        "messages": st.lists(objects, max_size=4),
        "acks": st.lists(objects, max_size=4),
        "reader": texts,
        "offsets": st.dictionaries(texts, numbers, max_size=3),
        "token": numbers,
        "lease_ms": numbers,
        "idempotency_key": texts,
        "results": st.lists(objects, max_size=4),
    },
)
work = st.fixed_dictionaries(
    {"queue": st.just("q") | texts, "task": st.just("t") | texts, "payload": values},
    optional={
        "priority": numbers,
        "run_at": texts | st.sampled_from(["2100-01-01T00:00:00Z", "9999-12-31T23:59:59-23:00"]),
        "idempotency_key": texts,
        "max_retries": numbers,
        "timeout_ms": numbers,
    },
)
claims = st.fixed_dictionaries(
    {"queues": st.lists(st.just("q") | texts, max_size=3), "owner": st.just("o") | texts},
    optional={"lease_ms": numbers, "max": numbers, "wait_ms": st.sampled_from([0, 1, -1, 300_001])},
)
runs = st.fixed_dictionaries(
    {"token": numbers},
    optional={"lease_ms": numbers, "result": values, "error": texts, "retryable": values},
)
bodies = st.one_of(
    st.just(b""),
    st.binary(max_size=60),
    values.map(lambda value: json.dumps(value).encode("utf-8", "surrogatepass")),
    objects.map(lambda value: json.dumps(value).encode()),
    (likely | work | claims | runs).map(lambda value: json.dumps(value).encode()),
    st.lists(likely, max_size=3).map(lambda lines: "\n".join(map(json.dumps, lines)).encode()),
)
queries = st.lists(st.tuples(names, texts | numbers.map(str)), max_size=6).map(
    lambda pairs: "&".join(f"{quote(name)}={quote(text)}" for name, text in pairs)
)
jobs = st.sampled_from(["job-0", "job-1", "job-01", "job-", "job-" + "9" * 5_000])
kinds = st.sampled_from(["application/json", "application/x-ndjson", "text/plain", ""])


def ask(server: Server, method: str, target: str, body: bytes, kind: str) -> tuple[int, str, bytes]:
    """One request of its own connection. Of a stream only the head is read."""
    connection = HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
    try:
        connection.request(method, target, body, {"Content-Type": kind})
        response = connection.getresponse()
        streams = response.status == 200 and target.startswith(("/v1/consume", "/v1/ui/live"))
        content = b"" if streams else response.read()
        return response.status, response.headers.get("Content-Type", ""), content
    finally:
        connection.close()


def check(route: tuple[str, str], status: int, kind: str, content: bytes) -> None:
    assert status in STATUSES[route], (route, status, content)
    if status >= 400:
        assert kind == "application/json"
        error = json.loads(content)
        assert isinstance(error["error"], str)
        assert isinstance(error["message"], str)


@pytest.mark.clause("H1", "H2", "E3")
@pytest.mark.parametrize("route", sorted(STATUSES), ids=" ".join)
def test_odd_bodies_and_queries(crowded: Server, route: tuple[str, str]) -> None:
    method, path = route
    fixed = path in (
        "/v1/openapi.json",
        "/v1/docs",
        "/v1/healthz",
        "/v1/readyz",
        "/v1/version",
        "/v1/metrics",
    )

    @settings(many, max_examples=10 if fixed else 50)
    @given(body=bodies, query=queries, kind=kinds, topic=st.just(TOPIC) | jobs | texts)
    def story(body: bytes, query: str, kind: str, topic: str) -> None:
        name = quote(topic.encode("utf-8", "replace"), safe="") or "x"
        target = re.sub(r"\{\w+\}", name, path)
        check(route, *ask(crowded, method, f"{target}?{query}", body, kind))

    story()
    assert crowded.get("/v1/readyz").status == 200


def _mutated(request: bytes, changes: list[tuple[int, int, bytes]]) -> bytes:
    for at, gone, added in changes:
        place = at % (len(request) + 1)
        request = request[:place] + added + request[place + gone :]
    return request


def _whole(target: str, body: Any) -> bytes:
    content = json.dumps(body).encode()
    head = f"POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(content)}\r\n\r\n"
    return head.encode() + content


SOUND = [
    _whole("/v1/produce", {"topic": TOPIC, "value": "v", "envelope": {"run_id": "r"}}),
    _whole("/v1/ack", {"topic": TOPIC, "group": "g", "owner": "o", "partition": 0, "offset": 0}),
    _whole("/v1/jobs", {"queue": "q", "task": "t", "payload": {"a": [1, None]}}),
    _whole("/v1/jobs/claim", {"queues": ["q"], "owner": "o", "lease_ms": 10, "max": 2}),
    _whole("/v1/jobs/job-0/complete", {"token": 1, "result": {"ok": True}}),
    _whole("/v1/produce/batch?atomic=true", {"messages": [{"topic": TOPIC, "value": "v"}]}),
    b"GET /v1/topics/odd/records?from=0&limit=2 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b'POST /v1/produce HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"top\r\n0\r\n\r\n',
]
noise = st.sampled_from(
    [b"\r\n", b"\x00", b"\xff", b":", b" ", b"%", b"0", b"chunked", b"HTTP/1.1"]
) | st.binary(max_size=4)
changes = st.lists(st.tuples(st.integers(0, 400), st.integers(0, 5), noise), min_size=1, max_size=4)


@pytest.mark.clause("H2", "H4")
@settings(many, max_examples=400)
@given(request=st.sampled_from(SOUND), changed=changes, copies=st.integers(1, 3))
def test_damaged_requests(crowded: Server, request: bytes, changed: list[Any], copies: int) -> None:
    answer = crowded.exchange(_mutated(request, changed) * copies, half_close=True)
    for part in answer.split(b"HTTP/1.1 ")[1:]:
        assert int(part[:3]) in {100, 200, 201, 204, 400, 403, 404, 405, 409, 413, 429}, answer


@schemathesis.serializer("application/x-ndjson")
def lines(_: Any, text: Any) -> bytes:
    return text if isinstance(text, bytes) else str(text).encode("utf-8", "replace")


# A redirect is followed, and a stream has no end.
schema = schemathesis.openapi.from_dict(DOCUMENT).exclude(path=["/v1/ui", "/v1/ui/live"])


@pytest.mark.clause("H5", "H2")
@schema.parametrize()
@settings(many, max_examples=10)
def test_what_the_document_allows(case: Any, crowded: Server) -> None:
    """Requests made from the document, and answers checked against it."""
    for fields in (case.query, case.body):
        if isinstance(fields, dict) and isinstance(fields.get("wait_ms"), int):
            fields["wait_ms"] = min(fields["wait_ms"], 20)  # Else it waits as long as the document allows.
    response = case.call(base_url=f"http://127.0.0.1:{crowded.port}", timeout=PATIENCE_S)
    case.validate_response(
        response,
        checks=[
            not_a_server_error,
            status_code_conformance,
            content_type_conformance,
            response_schema_conformance,
        ],
    )
