"""API keys over HTTP: what a key may do, how a wrong one is refused, how keys change meanwhile."""

from __future__ import annotations

import http.client
import json
import re
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from tests.contract.keyed import KeyedServer
from tests.contract.serving import PATIENCE_S, read_all
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeyedServer]:
    with KeyedServer(tmp_path_factory.mktemp("keyed")) as running:
        for topic in ("orders.eu", "orders.us", "billing"):
            created = running.ask("POST", "/v1/topics", {"name": topic}, key=running.admin)
            assert created.status == 201
        yield running


def in_force(server: KeyedServer, key: str, status: int = 200) -> None:
    """Wait until the server has read the keys file."""
    wait_until(f"whoami answers {status}", lambda: server.ask("GET", "/v1/whoami", key=key).status == status)


def stored(server: KeyedServer, topic: str) -> list[str]:
    lines = server.ask("GET", f"/v1/topics/{topic}/records", key=server.admin).lines
    return [line["value"] for line in lines]


@pytest.mark.clause("Y2")
def test_whoami_shows_the_key_and_never_its_secret(keyed: KeyedServer) -> None:
    key = keyed.add_key("shown", "produce", "consume", topics=["orders.*"])
    in_force(keyed, key)
    answer = keyed.ask("GET", "/v1/whoami", key=key)
    assert answer.json == {
        "name": "shown",
        "roles": ["produce", "consume"],
        "tenant": None,
        "topics": ["orders.*"],
    }
    assert key.rpartition("_")[2].encode() not in answer.content


@pytest.mark.clause("Y2", "H2")
@pytest.mark.parametrize(
    ("path", "body", "content_type"),
    [
        ("/v1/produce", {"topic": "billing", "value": "forged"}, "application/json"),
        ("/v1/produce?topic=billing&value=forged", None, "application/json"),
        ("/v1/produce?topic=orders.eu&value=forged&target_topic=billing", None, "application/json"),
        (
            "/v1/produce",
            {"topic": "orders.eu", "value": "forged", "envelope": {"target_topic": "billing"}},
            "application/json",
        ),
        ("/v1/produce", b'{"topic":"orders.eu","topic":"billing","value":"forged"}', "application/json"),
        (
            "/v1/produce/batch",
            {"messages": [{"topic": "orders.eu", "value": "a"}, {"topic": "billing", "value": "forged"}]},
            "application/json",
        ),
        (
            "/v1/produce/batch",
            b'{"topic":"orders.eu","value":"a"}\nnonsense\n{"topic":"billing","value":"forged"}\n',
            "application/x-ndjson",
        ),
        ("/v1/topics/billing/writers", {"writer": "w"}, "application/json"),
        (
            "/v1/topics/bill%69ng/append",
            {"writer": "w", "lane": 0, "epoch": 1, "messages": [{"position": 0, "value": "forged"}]},
            "application/json",
        ),
    ],
)
def test_a_key_writes_to_its_topics_only(keyed: KeyedServer, path: str, body: Any, content_type: str) -> None:
    try:
        key = keyed.add_key("writer", "produce", topics=["orders.*"])
        in_force(keyed, key)
        before = {topic: stored(keyed, topic) for topic in ("orders.eu", "billing")}
        answer = keyed.ask("POST", path, body, key=key, headers={"Content-Type": content_type})
        error = answer.refused(403, "PERMISSION_DENIED")
        assert (error["kind"], error["topic"]) == ("TopicNotAllowed", "billing")
        assert {topic: stored(keyed, topic) for topic in before} == before
        mine = {"topic": "orders.us", "value": "mine"}
        assert keyed.ask("POST", "/v1/produce", mine, key=key).status == 200
    finally:
        keyed.revoke("writer")


@pytest.mark.clause("Y2")
def test_a_key_reads_settles_and_lists_its_topics_only(keyed: KeyedServer) -> None:
    key = keyed.add_key("reader", "read", "consume", topics=["orders.*"])
    in_force(keyed, key)
    named = {"topic": "billing", "group": "g", "owner": "o"}
    placed = named | {"partition": 0, "offset": 0}
    effect = named | {"idempotency_key": "k", "lease_ms": 1000}
    refused = [
        keyed.ask("GET", "/v1/consume?topic=billing&group=g&owner=o", key=key),
        keyed.ask("GET", "/v1/consume", named, key=key),
        keyed.ask("POST", "/v1/ack", placed, key=key),
        keyed.ask("POST", "/v1/nack", placed, key=key),
        keyed.ask("POST", "/v1/lease/extend", placed | {"lease_ms": 5}, key=key),
        keyed.ask("POST", "/v1/ack/batch", named | {"acks": [{"partition": 0, "offset": 0}, "x"]}, key=key),
        keyed.ask("POST", "/v1/idempotency/begin", effect, key=key),
        keyed.ask("GET", "/v1/topics/billing", key=key),
        keyed.ask("GET", "/v1/topics/billing/records", key=key),
        keyed.ask("GET", "/v1/messages/billing/0", key=key),
        keyed.ask("GET", "/v1/dlq/billing", key=key),
        keyed.ask("GET", "/v1/metrics", key=key),
        keyed.ask("GET", "/v1/runs/any", key=key),
    ]
    assert [answer.status for answer in refused] == [403] * len(refused)
    assert keyed.ask("GET", "/v1/topics", key=key).json == {"topics": ["orders.eu", "orders.us"]}
    assert keyed.ask("GET", "/v1/topics/orders.eu", key=key).status == 200


@pytest.mark.clause("Y4")
def test_a_revoked_key_is_refused_without_a_restart_and_its_stream_ends(keyed: KeyedServer) -> None:
    key = keyed.add_key("leaver", "consume")
    in_force(keyed, key)
    with socket.create_connection(("127.0.0.1", keyed.port), timeout=PATIENCE_S) as stream:
        head = "GET /v1/consume?topic=orders.eu&group=leaving&owner=o HTTP/1.1\r\nHost: localhost\r\n"
        stream.sendall(f"{head}Authorization: Bearer {key}\r\n\r\n".encode())
        assert stream.recv(65536).startswith(b"HTTP/1.1 200")
        keyed.revoke("leaver")
        read_all(stream)  # Returns when the server closes the stream.
    keyed.ask("GET", "/v1/whoami", key=key, source="127.0.4.2").refused(401, "UNAUTHENTICATED")


@pytest.mark.clause("Y4")
def test_a_connection_that_has_proven_a_key_loses_it_with_the_key(keyed: KeyedServer) -> None:
    key = keyed.add_key("kept", "read")
    in_force(keyed, key)
    connection = http.client.HTTPConnection("127.0.0.1", keyed.port, timeout=PATIENCE_S)

    def status() -> int:
        connection.request("GET", "/v1/whoami", headers={"Authorization": f"Bearer {key}"})
        response = connection.getresponse()
        response.read()
        return response.status

    assert [status(), status(), status()] == [200, 200, 200]
    keyed.revoke("kept")
    keyed.hang_up_signal()
    wait_until("the key is refused", lambda: status() == 401)
    connection.close()


@pytest.mark.clause("Y4")
def test_a_keys_file_that_breaks_keeps_the_old_keys(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    server = KeyedServer(tmp_path_factory.mktemp("breaking")).start()
    sound = server.keys_file.read_bytes()
    server.keys_file.write_bytes(sound[:-5])
    server.hang_up_signal()
    broken = "it is not JSON; the keys from before stay in force"
    wait_until("the broken file is logged", lambda: broken in server.logged)
    assert server.ask("GET", "/v1/whoami", key=server.admin).status == 200
    server.keys_file.unlink()
    missing = "no such file or directory; the keys from before stay in force"
    wait_until("the missing file is logged", lambda: missing in server.logged)
    assert server.ask("GET", "/v1/whoami", key=server.admin).status == 200
    server.keys_file.write_bytes(sound)
    late = server.add_key("late", "read")
    in_force(server, late)
    code, logged = server.terminate()
    assert code == 0
    for secret in (server.admin, late):
        assert secret.rpartition("_")[2] not in logged


@pytest.mark.clause("Y4", "H2")
def test_failed_tries_are_limited_for_an_address_and_a_valid_key_still_works(keyed: KeyedServer) -> None:
    wrong = keyed.admin[:-1] + ("0" if keyed.admin[-1] != "0" else "1")
    answers = [keyed.ask("GET", "/v1/topics", key=wrong, source="127.0.2.1") for _ in range(40)]
    assert {answer.status for answer in answers} == {401, 429}
    last = next(answer for answer in answers if answer.status == 429)
    error = last.refused(429, "RESOURCE_EXHAUSTED")
    assert error["reason"] == "too_many_tries"
    assert int(last.headers["Retry-After"]) >= 1
    assert last.headers["Connection"] == "close"
    assert keyed.ask("GET", "/v1/topics", key=wrong, source="127.0.2.2").status == 401
    assert keyed.ask("GET", "/v1/topics", key=keyed.admin, source="127.0.2.1").status == 200


@pytest.mark.clause("Y4")
@pytest.mark.parametrize(
    "authorization",
    [
        "",
        "Bearer",
        "Bearer ",
        "Basic YTpi",
        "Bearer dq_",
        "Bearer dq__",
        "dq_x_y",
        "Bearer \xff_\xff_\xff",
        "Bearer xx_a_b",
    ],
)
def test_what_is_no_key_is_a_401(keyed: KeyedServer, authorization: str) -> None:
    source = f"127.0.3.{1 + len(authorization)}"
    answer = keyed.ask("GET", "/v1/topics", key=None, source=source, headers={"Authorization": authorization})
    answer.refused(401, "UNAUTHENTICATED")


@pytest.mark.clause("Y4")
def test_a_pipelined_request_has_the_key_of_its_own_head(keyed: KeyedServer) -> None:
    """Heads are cached by their bytes: a key must not stick to a connection."""
    with_key = f"GET /v1/whoami HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {keyed.admin}\r\n\r\n"
    without = "GET /v1/whoami HTTP/1.1\r\nHost: localhost\r\n\r\n"
    last = without.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n")
    answers = keyed.exchange((with_key + without + with_key + without + last).encode())
    assert re.findall(rb"HTTP/1.1 (\d+)", answers) == [b"200", b"401", b"200", b"401", b"401"]
    upgraded = with_key.replace("\r\n\r\n", "\r\nUpgrade: h2c\r\nConnection: Upgrade, close\r\n\r\n")
    assert keyed.exchange(upgraded.encode()).startswith(b"HTTP/1.1 200")
    twice = last.replace("Host", f"Authorization: Bearer {keyed.admin}\r\nAuthorization: Bearer x\r\nHost")
    assert keyed.exchange(twice.encode()).startswith(b"HTTP/1.1 400")


@pytest.mark.clause("Y1")
@pytest.mark.parametrize("length", ["Content-Length: 10000000", "Transfer-Encoding: chunked"])
def test_the_body_of_a_stranger_is_not_read(keyed: KeyedServer, length: str) -> None:
    """The answer comes while the body is still missing."""
    head = f"POST /v1/produce/batch HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n{length}\r\n\r\n"
    answer = keyed.exchange(head.encode())
    assert answer.startswith(b"HTTP/1.1 401")
    assert b"WWW-Authenticate: Bearer" in answer


@pytest.mark.clause("Y4")
def test_only_the_hash_is_at_rest_and_only_the_owner_reads_it(keyed: KeyedServer) -> None:
    content = keyed.keys_file.read_text()
    assert keyed.admin.rpartition("_")[2] not in content
    assert keyed.keys_file.stat().st_mode & 0o777 == 0o600
    assert len(bytes.fromhex(keyed.admin.rpartition("_secret")[2])) * 8 == 256
    assert all(len(entry["sha256"]) == 64 for entry in json.loads(content)["keys"])
