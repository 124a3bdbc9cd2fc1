"""Any web page can send requests to a server on this machine: none but the server's own is answered."""

import socket
from collections.abc import Iterator, Mapping
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

import driftq
from driftq.errors import HostRefused
from driftq.http.wire.edge import Edge, HttpOptions
from driftq.log.memory import MemoryFolder
from driftq.server.broker import BrokerOptions, open_broker
from driftq.transport.errors import read_error
from tests.contract.serving import PATIENCE_S, Answer, Server
from tests.harness import ServerProcess

FOREIGN: list[dict[str, str]] = [
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Origin": "http://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://localhost:3000", "Sec-Fetch-Site": "same-site"},
    {"Host": "evil.example"},
    {"Host": "evil.example:8080", "Origin": "http://evil.example:8080", "Sec-Fetch-Site": "same-origin"},
]


@pytest.fixture(scope="module")
def named() -> Iterator[Server]:
    """A server that is also asked as queue.example.org."""
    with Server(None, http={"allowed_hosts": ["queue.example.org"]}) as running:
        yield running


def raw(server: Server, method: str, target: str, headers: Mapping[str, str], body: bytes = b"") -> bytes:
    """One request with just these headers, and all that comes back."""
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    lines += [f"Content-Length: {len(body)}", "Connection: close", "", ""]
    return server.exchange("\r\n".join(lines).encode() + body)


def refused(answer: bytes) -> None:
    assert answer.startswith(b"HTTP/1.1 403 Forbidden"), answer
    assert b'"error":"PERMISSION_DENIED"' in answer


@pytest.mark.clause("Y6", "Y6a", "H2")
@pytest.mark.parametrize("headers", FOREIGN)
def test_a_foreign_page_can_neither_write_nor_read(server: Server, headers: dict[str, str]) -> None:
    topic = server.new_topic()
    server.produce(topic, "kept")
    asked = {"Host": "127.0.0.1"} | headers
    produce = b'{"topic":"%b","value":"forged"}' % topic.encode()
    refused(raw(server, "POST", "/v1/produce", asked, produce))
    refused(raw(server, "POST", f"/v1/produce?topic={topic}&value=forged", asked))
    refused(raw(server, "POST", f"/v1/topics/{topic}/groups/g/reset", asked, b'{"to":"latest"}'))
    refused(raw(server, "DELETE", f"/v1/topics/{topic}", asked))
    refused(raw(server, "POST", "/v1/jobs/job-0/cancel", asked))
    refused(raw(server, "GET", f"/v1/topics/{topic}/records", asked))
    refused(raw(server, "GET", f"/v1/consume?topic={topic}&group=g&owner=o", asked))
    refused(raw(server, "GET", "/v1/healthz", asked))
    refused(raw(server, "GET", "/v1/no/such/route", asked))
    assert [line["value"] for line in server.get(f"/v1/topics/{topic}/records").lines] == ["kept"]
    assert server.get(f"/v1/topics/{topic}").json["groups"] == []


@pytest.mark.clause("Y6", "Y6a")
def test_a_web_socket_is_no_way_round(server: Server) -> None:
    """The wish for another protocol is dropped, and whose wish it was is not."""
    topic = server.new_topic()
    wish = {"Host": "127.0.0.1", "Origin": "http://evil.example", "Upgrade": "websocket"}
    head = [f"GET /v1/consume?topic={topic}&group=g&owner=o HTTP/1.1", "Connection: Upgrade, close"]
    head += [f"{name}: {value}" for name, value in wish.items()]
    refused(server.exchange("\r\n".join([*head, "", ""]).encode()))


@pytest.mark.clause("Y6", "Y6a")
def test_a_known_head_of_a_program_opens_no_door_for_a_page(server: Server) -> None:
    """Heads that were read before are not read again: those of pages are never among them."""
    own = {"Host": "localhost"}
    for _ in range(3):
        assert call(server, own).status == 200
        call(server, own | {"Origin": "http://evil.example"}).refused(403, "PERMISSION_DENIED")


def call(server: Server, headers: Mapping[str, str]) -> Answer:
    return server.call("GET", "/v1/version", headers=headers)


@pytest.mark.clause("Y6", "Y6a")
def test_the_servers_own_page_may_ask(server: Server) -> None:
    host = f"localhost:{server.port}"
    own = {"Host": host, "Origin": f"http://{host}", "Sec-Fetch-Site": "same-origin"}
    assert call(server, own).status == 200
    assert call(server, {"Host": host, "Sec-Fetch-Site": "none"}).status == 200


@pytest.mark.clause("Y6", "Y6a")
def test_refused_and_answered_requests_keep_their_order_on_a_connection(server: Server) -> None:
    good = b"GET /v1/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    bad = b"GET /v1/healthz HTTP/1.1\r\nHost: localhost\r\nOrigin: null\r\n\r\n"
    last = b"GET /v1/version HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    answers = server.exchange(good + bad + good + last)
    statuses = [int(part[:3]) for part in answers.split(b"HTTP/1.1 ")[1:]]
    assert statuses == [200, 403, 200, 200]


@pytest.mark.clause("Y6", "Y6a")
def test_an_allowed_request_speaks_for_no_other_on_its_connection(server: Server) -> None:
    """The same headers are not checked twice in a row; any other ones are."""
    asked = [
        ("/v1/healthz", "Host: localhost", 200),
        ("/v1/healthz", "Host: evil.example", 403),
        ("/v1/healthz", "Host: localhost", 200),
        ("/v1/version", "Host: localhost\r\nSec-Fetch-Site: cross-site", 403),
        ("/v1/version", "Host: localhost", 200),
        ("/v1/topics", "Host: localhost\r\nOrigin: http://evil.example", 403),
        ("/v1/topics", "Host: localhost", 200),
        ("http://evil.example/v1/jobs", "Host: localhost", 403),
        ("/v1/jobs", "Host: localhost\r\nConnection: close", 200),
    ]
    heads = [f"GET {path} HTTP/1.1\r\n{headers}\r\n\r\n" for path, headers, _ in asked]
    answers = server.exchange("".join(heads).encode())
    statuses = [int(part[:3]) for part in answers.split(b"HTTP/1.1 ")[1:]]
    assert statuses == [status for _, _, status in asked]


@pytest.mark.clause("Y6", "Y6a")
def test_a_name_has_to_be_allowed_and_the_refusal_says_how(named: Server) -> None:
    assert call(named, {"Host": "Queue.example.org:8080"}).status == 200
    error = call(named, {"Host": "queue:8080"}).refused(403, "PERMISSION_DENIED")
    assert error["message"] == (
        "the host name 'queue' is not known to be this server's; to allow it, add it to the names in "
        "DRIFTQ_ALLOWED_HOSTS (comma-separated) where the server is started"
    )
    assert (error["kind"], error["host"]) == ("HostRefused", "queue")


@pytest.mark.clause("Y6", "Y6a", "N1")
def test_the_names_come_from_the_environment(tmp_path: Path) -> None:
    """And the Python client is told what to do by the same refusal."""
    names = {"DRIFTQ_ALLOWED_HOSTS": "queue.example.org, Queue"}
    with ServerProcess(tmp_path / "data", "--no-wal", env=names) as served:
        statuses = {}
        for host in ("queue", "QUEUE.example.org:1", "other", "127.0.0.1"):
            connection = HTTPConnection("127.0.0.1", served.port, timeout=PATIENCE_S)
            connection.request("GET", "/v1/healthz", headers={"Host": host})
            answer = connection.getresponse()
            statuses[host] = answer.status
            if answer.status == 403:
                with pytest.raises(HostRefused, match="add it to the names in DRIFTQ_ALLOWED_HOSTS"):
                    raise read_error(answer.status, answer.read())
            connection.close()
        assert statuses == {"queue": 200, "QUEUE.example.org:1": 200, "other": 403, "127.0.0.1": 200}
        with driftq.Client(f"http://localhost:{served.port}") as client:
            assert client.topics() == []


@pytest.mark.clause("Y6", "Y6a")
async def test_the_name_that_a_server_is_bound_to_is_its_own() -> None:
    broker = open_broker(
        MemoryFolder(), BrokerOptions(durable=False), on_fatal=lambda error: pytest.fail(str(error))
    )
    rule = Edge(broker, HttpOptions(), bound_to="Queue.internal").host_rule
    assert rule is not None
    assert rule.refusal(host=b"queue.internal:8080", origin=None, site=None) is None
    assert rule.refusal(host=b"queue", origin=None, site=None) is not None
    await broker.close()


@pytest.mark.clause("Y6", "Y6a", "H1")
def test_plain_programs_are_answered_as_before(server: Server) -> None:
    """A form's content type, a query without a body, no Host at all: none of it decides anything."""
    topic = server.new_topic()
    form: Any = {"Content-Type": "application/x-www-form-urlencoded"}
    body = b'{"topic":"%b","value":"v"}' % topic.encode()
    assert server.call("POST", "/v1/produce", body, headers=form).status == 200
    assert server.post("/v1/produce", topic=topic, value="w").status == 200
    assert b"200 OK" in server.exchange(b"GET /v1/healthz HTTP/1.0\r\n\r\n")
    assert b"200 OK" in server.exchange(b"GET /v1/healthz HTTP/1.1\r\nConnection: close\r\n\r\n")


@pytest.mark.clause("Y6", "Y6a", "H1")
def test_a_target_that_is_written_in_full_names_the_host(server: Server) -> None:
    request = "GET http://{}/v1/healthz HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n"
    refused(server.exchange(request.format("evil.example", "localhost").encode()))
    assert b"200 OK" in server.exchange(request.format("localhost:1", "evil.example").encode())


@pytest.mark.clause("H2")
@pytest.mark.parametrize(
    "request_head",
    [
        b"GET /v1/healthz HTTP/0.9\r\nHost: localhost\r\n\r\n",
        b"GET /v1/healthz HTTP/2.0\r\nHost: localhost\r\n\r\n",
        b"GET /v1/healthz\r\n\r\n",
        b"GET /v1/healthz HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
        b"GET /v1/healthz HTTP/1.1\r\nHost: localhost\r\nhost: evil.example\r\n\r\n",
    ],
)
def test_other_versions_and_two_hosts_are_refused(server: Server, request_head: bytes) -> None:
    with server.open() as client:
        client.sendall(request_head)
        answer = client.recv(65536, socket.MSG_WAITALL)
    assert answer.startswith(b"HTTP/1.1 400 Bad Request"), answer
    assert b'"error":"INVALID_ARGUMENT"' in answer


@pytest.mark.clause("H1")
def test_a_wish_for_another_protocol_keeps_what_else_was_said(server: Server) -> None:
    wish = "GET /v1/healthz HTTP/{}\r\nHost: localhost\r\nConnection: {}\r\nUpgrade: h2c\r\n\r\n"
    closed = server.exchange(wish.format("1.1", "Upgrade, close").encode())
    assert b"200 OK" in closed
    assert b"Connection: close" in closed
    old = server.exchange(wish.format("1.0", "Upgrade").encode())
    assert b"Connection: close" in old
