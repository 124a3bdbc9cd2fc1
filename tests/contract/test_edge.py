"""HTTP itself: order, limits, old and odd clients. Every error is JSON."""

import json
import socket
import time
from collections.abc import Iterator

import pytest

from driftq.model.partitioner import partition_of
from tests.contract.serving import Server, Stream, read_all

HEALTH = b"GET /v1/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
LAST = b"GET /v1/version HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


@pytest.fixture(scope="module")
def tight() -> Iterator[Server]:
    """Little of everything."""
    limits = {"body_bytes_max": 1000, "head_bytes_max": 1000, "url_bytes_max": 500, "connections_max": 4}
    idle = {"head_s": 1, "body_window_s": 1, "keep_alive_s": 2, "outstanding_max": 4}
    with Server(None, http=limits | idle) as running:
        yield running


def post(path: str, body: bytes, *headers: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def refusal(answer: bytes, status: int, code: str) -> dict[str, str]:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status), answer
    assert b"Content-Type: application/json" in head
    error: dict[str, str] = json.loads(body)
    assert error["error"] == code
    return error


@pytest.mark.clause("H2")
@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/topics",
        "/v1",
        "/v1/",
        "/v1/nope",
        "/v2/topics",
        "/v1/topics/",
        "/v1/topics/a/b",
        "/v1/healthz/",
        "//v1/healthz",
        "/v1/topics/{topic}",
    ],
)
def test_other_routes_do_not_exist(server: Server, path: str) -> None:
    server.get(path).refused(404, "NOT_FOUND")


@pytest.mark.clause("H2")
def test_another_method_is_told_which_are_allowed(server: Server) -> None:
    for method, path, allow in (
        ("GET", "/v1/produce", "POST"),
        ("DELETE", "/v1/topics", "GET, POST"),
        ("PUT", "/v1/topics/x/records", "GET"),
        ("OPTIONS", "/v1/ack", "POST"),
        ("POST", "/v1/consume", "GET"),
    ):
        answer = server.call(method, path)
        answer.refused(405, "METHOD_NOT_ALLOWED")
        assert answer.headers["Allow"] == allow
    head = server.call("HEAD", "/v1/healthz")
    assert (head.status, head.headers["Allow"], head.content) == (405, "GET", b"")


@pytest.mark.clause("H1")
def test_pipelined_requests_are_answered_in_their_order(server: Server) -> None:
    topic = server.new_topic()
    body = b'{"topic":"%b","value":"v"}' % topic.encode()
    slow = post("/v1/produce", body, f"Content-Length: {len(body)}")
    records = f"GET /v1/topics/{topic}/records HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    answers = server.exchange(slow + HEALTH + records + slow + HEALTH + LAST)
    marks = [
        b'"offset":0,"dup',
        b'"ok"',
        b'"timestamp"',
        b"0\r\n\r\nHTTP",
        b'"offset":1',
        b'"ok"',
        b'"commit"',
    ]
    at = 0
    for mark in marks:
        at = answers.index(mark, at) + 1
    assert answers.count(b"HTTP/1.1 200 OK") == 6


@pytest.mark.clause("H1", "T3")
@pytest.mark.parametrize("partitions", [4, 64])
def test_replies_that_were_made_together_are_each_of_their_own_length(
    server: Server, partitions: int
) -> None:
    topic = server.new_topic(partitions)
    bodies = [b'{"topic":"%b","key":"user:%d","value":"v"}' % (topic.encode(), n) for n in range(105)]
    requests = [post("/v1/produce", body, f"Content-Length: {len(body)}") for body in bodies]
    named = post("/v1/produce", bodies[0], f"Content-Length: {len(bodies[0])}\r\nX-Request-Id: mine")
    answers = server.exchange(b"".join([*requests[:97], named, *requests[97:]]) + LAST)
    replies = answers.split(b"HTTP/1.1 ")[1:-1]
    keys = [f"user:{n}" for n in (*range(97), 0, *range(97, 105))]
    for offset, (reply, key) in enumerate(zip(replies, keys, strict=True)):
        head, _, content = reply.partition(b"\r\n\r\n")
        assert b"Content-Length: %d" % len(content) in head
        placed = json.loads(content)
        assert (placed["partition"], placed["offset"]) == (partition_of(key, partitions=partitions), offset)
    assert [n for n, reply in enumerate(replies) if b"X-Request-Id: mine" in reply] == [97]


@pytest.mark.clause("H4")
def test_many_pipelined_requests_are_all_answered(tight: Server) -> None:
    answers = tight.exchange(HEALTH * 3000 + LAST)
    assert answers.count(b'{"status":"ok"}') == 3000


@pytest.mark.clause("H1")
def test_a_body_may_come_in_chunks_and_in_pieces(server: Server) -> None:
    topic = server.new_topic()
    body = b'{"topic":"%b","value":"v"}' % topic.encode()
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:5], body[5:])) + b"0\r\n\r\n"
    request = post("/v1/produce", chunks, "Transfer-Encoding: chunked") + LAST
    with server.open() as client:
        for start in range(0, len(request), 7):
            client.sendall(request[start : start + 7])
        assert b'"offset":0' in read_all(client)


@pytest.mark.clause("H1")
def test_a_client_that_waits_for_continue_gets_it(server: Server) -> None:
    topic = server.new_topic()
    body = b'{"topic":"%b","value":"v"}' % topic.encode()
    length = f"Content-Length: {len(body)}"
    with server.open() as client:
        client.sendall(post("/v1/produce", b"", length, "Expect: 100-continue", "Connection: close"))
        assert client.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(body)
        assert read_all(client).startswith(b"HTTP/1.1 200 OK")


@pytest.mark.clause("H1")
def test_old_clients_are_answered_in_their_way(server: Server) -> None:
    closed = server.exchange(b"GET /v1/healthz HTTP/1.0\r\n\r\n")
    assert b"Connection: close" in closed
    kept = b"GET /v1/healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
    both = server.exchange(kept + b"GET /v1/healthz HTTP/1.0\r\n\r\n")
    assert both.count(b"HTTP/1.1 200") == 2
    assert both.count(b"Connection: keep-alive") == 1
    topic = server.new_topic()
    server.produce(topic, "v")
    stored = server.exchange(b"GET /v1/topics/%b/records HTTP/1.0\r\n\r\n" % topic.encode())
    assert b"chunked" not in stored
    assert stored.endswith(b'"value":"v"}\n')


@pytest.mark.clause("H1")
def test_a_wish_for_another_protocol_is_answered_in_this_one(server: Server) -> None:
    topic = server.new_topic()
    body = b'{"topic":"%b","value":"v"}' % topic.encode()
    wish = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk")
    request = post("/v1/produce", body, *wish, f"Content-Length: {len(body)}")
    answers = server.exchange(request + LAST)
    assert b'"offset":0' in answers
    assert b'"commit"' in answers


@pytest.mark.clause("H1")
def test_the_address_may_be_written_in_full(server: Server) -> None:
    request = b"GET http://127.0.0.1/v1/healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    assert b'{"status":"ok"}' in server.exchange(request)


@pytest.mark.clause("H1")
def test_a_client_that_closed_its_side_still_gets_its_answers(server: Server) -> None:
    topic = server.new_topic()
    body = b'{"topic":"%b","value":"v"}' % topic.encode()
    request = post("/v1/produce", body, f"Content-Length: {len(body)}")
    answers = server.exchange(request * 3, half_close=True)
    assert answers.count(b'"status":"produced"') == 3


@pytest.mark.clause("H2", "H4")
@pytest.mark.parametrize(
    "noise",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"HELLO\r\n\r\n",
        b"GET /v1/healthz HTTP/9.9\r\n\r\n",
        b"GET /v1/healthz HTTP/1.1\r\nbad header\r\n\r\n",
        b"GET /v1/healthz HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/ack HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST /v1/ack HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
def test_noise_is_answered_and_the_connection_closed(server: Server, noise: bytes) -> None:
    refusal(server.exchange(noise), 400, "INVALID_ARGUMENT")


@pytest.mark.clause("H2")
def test_connect_is_refused(server: Server) -> None:
    refusal(
        server.exchange(b"CONNECT example.org:80 HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        405,
        "METHOD_NOT_ALLOWED",
    )


@pytest.mark.clause("H4")
def test_a_large_body_is_refused_before_it_is_sent_and_while_it_is(tight: Server) -> None:
    announced = tight.exchange(post("/v1/produce", b"", "Content-Length: 1001", "Expect: 100-continue"))
    refusal(announced, 413, "PAYLOAD_TOO_LARGE")
    chunks = (b"100\r\n" + b"x" * 256 + b"\r\n") * 400
    refusal(
        tight.exchange(post("/v1/produce", chunks, "Transfer-Encoding: chunked")), 413, "PAYLOAD_TOO_LARGE"
    )
    sent = post("/v1/produce", b"x" * 100_000, "Content-Length: 100000")
    refusal(tight.exchange(sent), 413, "PAYLOAD_TOO_LARGE")


@pytest.mark.clause("H4")
def test_a_body_of_the_full_size_is_taken(server: Server) -> None:
    topic = server.new_topic()
    envelope = b'{"topic":"%b","value":""}' % topic.encode()
    room = (16 << 20) - len(envelope)
    body = b'{"topic":"%b","value":"%b"}' % (topic.encode(), b"x" * room)
    answer = server.call("POST", "/v1/produce", body)
    assert answer.status in (200, 400), answer  # The stored form may be a few bytes too long.
    server.call("POST", "/v1/produce", body + b" ").refused(413, "PAYLOAD_TOO_LARGE")
    server.call("GET", "/v1/healthz")


@pytest.mark.clause("H4")
@pytest.mark.parametrize(
    "request_head",
    [
        b"GET /v1/healthz?" + b"x" * 500 + b" HTTP/1.1\r\n\r\n",
        b"GET /v1/healthz HTTP/1.1\r\nA: " + b"x" * 1000 + b"\r\n\r\n",
        b"GET /v1/healthz HTTP/1.1\r\n" + b"A: b\r\n" * 300 + b"\r\n",
    ],
)
def test_large_heads_are_refused(tight: Server, request_head: bytes) -> None:
    refusal(tight.exchange(request_head), 400, "INVALID_ARGUMENT")


@pytest.mark.clause("H4")
def test_a_head_without_an_end_is_refused(tight: Server) -> None:
    with tight.open() as client:
        client.sendall(b"GET /v1/healthz HTTP/1.1\r\nA: ")
        answer = b""
        for _ in range(100):
            client.sendall(b"x" * 100)
            time.sleep(0.001)
            client.setblocking(False)
            try:
                answer = client.recv(4096)
            except BlockingIOError:
                continue
            finally:
                client.setblocking(True)
            break
    refusal(answer, 400, "INVALID_ARGUMENT")


@pytest.mark.clause("H4")
def test_connections_are_bounded(tight: Server) -> None:
    topic = tight.new_topic()
    tight.hang_up()
    streams = [Stream(tight.port, topic=topic, group="g", owner=f"o{number}") for number in range(4)]
    try:
        assert refusal(tight.exchange(b""), 503, "UNAVAILABLE")["message"] == "too many connections"
        streams.pop().close()
        while (answer := tight.exchange(LAST)).startswith(b"HTTP/1.1 503"):
            pass  # The server has not seen yet that the stream is closed.
        assert answer.startswith(b"HTTP/1.1 200 OK")
    finally:
        for stream in streams:
            stream.close()


@pytest.mark.clause("H4")
def test_a_client_that_falls_silent_is_let_go(tight: Server) -> None:
    with tight.open() as client:
        client.sendall(HEALTH[:-4])
        refusal(read_all(client), 408, "REQUEST_TIMEOUT")
    with tight.open() as client:
        client.sendall(HEALTH)
        assert b"200 OK" in client.recv(4096)
        assert client.recv(4096) == b""


@pytest.mark.clause("H4")
def test_answers_that_nobody_takes_are_not_piled_up(server: Server) -> None:
    with server.open() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(1.0)
        request = b"GET /v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100
        with pytest.raises(TimeoutError):
            for _ in range(100_000):
                client.sendall(request)
    assert server.get("/v1/healthz").status == 200
