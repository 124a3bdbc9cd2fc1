"""The blocking HTTP client: one connection that is kept, opened again after a loss, and never repeats."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from driftq.errors import InvalidArgument, ServerUnreachable
from driftq.model.options.credentials import Credentials
from driftq.transport.blocking import BlockingConnection
from driftq.transport.endpoint import Endpoint
from driftq.transport.paths import group_path, query_text, topic_path

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
HALF = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nfirst\nsec"
ENDLESS = b"HTTP/1.1 200 OK\r\n\r\nfirst\nsecond\nthi"


class ScriptedServer:
    """Answers the requests of each connection with the next responses, then closes that connection."""

    def __init__(self, *connections: list[bytes]) -> None:
        self._connections = connections
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve)
        self.heads: list[str] = []
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listening.getsockname()[1]}/broker/"

    def _serve(self) -> None:
        for responses in self._connections:
            connected, _ = self._listening.accept()
            with connected:
                for response in responses:
                    self.heads.append(connected.recv(65536).decode())
                    connected.sendall(response)

    def close(self) -> None:
        self._thread.join()
        self._listening.close()


@pytest.fixture
def servers() -> Iterator[list[ScriptedServer]]:
    started: list[ScriptedServer] = []
    yield started
    for server in started:
        server.close()


def test_one_connection_serves_several_requests(servers: list[ScriptedServer]) -> None:
    servers.append(server := ScriptedServer([OK, OK]))
    connection = BlockingConnection(
        Endpoint.of(server.url, timeout_s=5, credentials=Credentials(api_key="secret"))
    )
    assert (
        connection.send("GET", "/v1/topics", query={"limit": 3, "brief": True, "after": None}).read() == b"{}"
    )
    assert connection.send("POST", "/v1/produce", body=b"[]").read() == b"{}"
    connection.close()
    first, second = server.heads
    assert first.startswith("GET /broker/v1/topics?limit=3&brief=true HTTP/1.1\r\n")
    assert "Authorization: Bearer secret\r\n" in first
    assert "Content-Type" not in first
    assert "Content-Type: application/json\r\n" in second


def test_after_a_loss_the_next_request_opens_another_connection(servers: list[ScriptedServer]) -> None:
    servers.append(server := ScriptedServer([OK], [OK]))
    connection = BlockingConnection(Endpoint.of(server.url, timeout_s=5))
    connection.send("GET", "/").read()
    with pytest.raises(ServerUnreachable) as lost:
        connection.send("GET", "/")
    assert lost.value.url == server.url.rstrip("/")
    assert connection.send("GET", "/").read() == b"{}"
    connection.close()
    assert len(server.heads) == 2, "a request was repeated"


def test_a_body_that_breaks_off_is_not_taken_for_a_short_one(servers: list[ScriptedServer]) -> None:
    servers.append(server := ScriptedServer([HALF]))
    connection = BlockingConnection(Endpoint.of(server.url, timeout_s=5))
    with pytest.raises(ServerUnreachable):
        connection.send("GET", "/").read()
    connection.close()


def test_blocks_hold_complete_lines(servers: list[ScriptedServer]) -> None:
    servers.append(server := ScriptedServer([ENDLESS]))
    connection = BlockingConnection(Endpoint.of(server.url, timeout_s=5))
    assert list(connection.send("GET", "/").line_blocks(8)) == [b"first\n", b"second\n", b"thi"]
    connection.close()


def test_remaining_lines_are_the_complete_ones(servers: list[ScriptedServer]) -> None:
    servers.append(server := ScriptedServer([ENDLESS]))
    connection = BlockingConnection(Endpoint.of(server.url, timeout_s=5))
    stream = connection.send("GET", "/")
    assert next(stream.lines()) == b"first\n"
    assert stream.remaining_lines(within_s=5, end_stream=True) == [b"second\n"]
    connection.close()


def test_a_server_that_is_away_is_said_in_words() -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    with pytest.raises(ServerUnreachable) as away:
        BlockingConnection(Endpoint.of(f"http://127.0.0.1:{port}", timeout_s=5)).send("GET", "/")
    assert away.value.cause == "connection refused"


@pytest.mark.parametrize("url", ["127.0.0.1:8080", "ftp://h", "http://", "http://h?a=1", "http://h:99999"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(InvalidArgument, match="is not an address"):
        Endpoint.of(url)


def test_an_endpoint_knows_its_port_and_whether_certificates_are_verified() -> None:
    plain, secure = Endpoint.of("http://[::1]/x/"), Endpoint.of("https://broker:444")
    assert (plain.port, plain.host_header, plain.prefix, plain.ssl_context()) == (80, "[::1]", "/x", None)
    context = secure.ssl_context()
    assert context is not None
    assert (secure.host_header, context.check_hostname) == ("broker:444", True)


def test_names_in_paths_and_queries_are_quoted() -> None:
    assert group_path("a/b", "c d") == "/v1/topics/a%2Fb/groups/c%20d"
    assert topic_path("é", "/spans") == "/v1/topics/%C3%A9/spans"
    assert query_text({"a": False, "b": "x y", "c": None}) == "?a=false&b=x+y"
    assert query_text(None) == query_text({"a": None}) == ""
