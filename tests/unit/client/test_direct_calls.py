"""Plain calls of the sync client are made on their caller's own thread, over blocking sockets."""

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from queue import SimpleQueue

import pytest

import driftq
from driftq.client.wire.caller import is_stepping, stepped
from driftq.errors import ClientClosed, ServerUnreachable, TopicNotFound

TOPICS = b'{"topics":["orders"]}'
CLOSE = b"close the connection"
Answer = bytes | Callable[[], bytes]


def response(body: bytes, *, status: bytes = b"200 OK", head: bytes = b"") -> bytes:
    return b"HTTP/1.1 %b\r\n%bContent-Length: %d\r\n\r\n%b" % (status, head, len(body), body)


@dataclass
class Script:
    """A server on a real socket: each request gets the next answer, on any connection."""

    answers: SimpleQueue[Answer] = field(default_factory=SimpleQueue)
    asked: SimpleQueue[bytes] = field(default_factory=SimpleQueue)
    connections: list[socket.socket] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listening.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def say(self, *answers: Answer) -> None:
        for answer in answers:
            self.answers.put(answer)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self.listening.accept()
            except OSError:
                return
            self.connections.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError):  # The client, or the end of the test, has closed the connection.
            while octets := connection.recv(65536):
                self.asked.put(octets)
                answer = self.answers.get()
                said = answer() if callable(answer) else answer
                if said == CLOSE:
                    break
                connection.sendall(said)
        connection.close()


@pytest.fixture
def script() -> Iterator[Script]:
    made = Script()
    yield made
    made.listening.close()
    for connection in made.connections:
        connection.close()


@pytest.fixture
def client(script: Script) -> Iterator[driftq.Client]:
    with driftq.Client(script.url, timeout_s=5.0) as made:
        yield made


def test_a_plain_call_needs_neither_the_loop_nor_another_connection(
    script: Script, client: driftq.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object) -> None:
        pytest.fail("the call was handed to the loop's thread")

    monkeypatch.setattr(client.thread, "run", refuse)
    script.say(*[response(TOPICS)] * 3)
    assert [client.topics() for _ in range(3)] == [["orders"]] * 3
    assert len(script.connections) == 1
    monkeypatch.undo()


def test_a_response_may_come_in_pieces(script: Script, client: driftq.Client) -> None:
    whole = response(TOPICS)

    def first_half() -> bytes:
        [connection] = script.connections
        connection.sendall(whole[:20])
        return whole[20:]

    script.say(first_half)
    assert client.topics() == ["orders"]


def test_a_response_in_chunks_is_read(script: Script, client: driftq.Client) -> None:
    script.say(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(TOPICS), TOPICS)
    )
    assert client.topics() == ["orders"]


def test_errors_are_those_of_the_server(script: Script, client: driftq.Client) -> None:
    script.say(
        response(
            b'{"error":"NOT_FOUND","kind":"TopicNotFound","reason":"topic_not_found","message":"gone"}',
            status=b"404 Not Found",
        )
    )
    with pytest.raises(TopicNotFound, match="gone"):
        client.topic("orders")


@pytest.mark.clause("P7")
def test_a_call_that_may_be_repeated_is_and_others_are_not(script: Script, client: driftq.Client) -> None:
    script.say(CLOSE, response(TOPICS))
    assert client.topics() == ["orders"]
    script.say(CLOSE)
    with pytest.raises(ServerUnreachable, match="the server closed the connection"):
        client.jobs.cancel("job-1")


def test_a_connection_that_the_server_has_closed_takes_no_request(
    script: Script, client: driftq.Client
) -> None:
    script.say(response(TOPICS), response(b""))
    client.topics()
    [kept] = script.connections
    kept.shutdown(socket.SHUT_RDWR)
    client.jobs.cancel("job-1")  # Not repeatable: it would be lost on the old connection.
    assert len(script.connections) == 2


def test_a_server_that_ends_connections_gets_a_new_one_each_time(
    script: Script, client: driftq.Client
) -> None:
    script.say(*[response(TOPICS, head=b"Connection: close\r\n")] * 2)
    assert [client.topics(), client.topics()] == [["orders"]] * 2
    assert len(script.connections) == 2


def test_a_silent_server_is_given_up_in_time(script: Script) -> None:
    options = driftq.ClientOptions(attempt_timeout_s=0.1, timeout_s=0.1)
    with driftq.Client(script.url, options=options) as client:
        with pytest.raises(ServerUnreachable, match="no response in time"):
            client.jobs.cancel("job-1")
        script.say(response(b""))  # For the request that was given up.
        script.say(response(TOPICS))
        assert client.topics() == ["orders"]


def test_calls_of_several_threads_are_under_way_at_the_same_time(
    script: Script, client: driftq.Client
) -> None:
    together = threading.Barrier(3, timeout=5)

    def met() -> bytes:
        together.wait()
        return response(TOPICS)

    script.say(met, met)
    threads = [threading.Thread(target=client.topics) for _ in range(2)]
    for thread in threads:
        thread.start()
    together.wait()
    for thread in threads:
        thread.join(5)
    assert len(script.connections) == 2


def test_close_ends_a_call_under_way(script: Script, client: driftq.Client) -> None:
    raised: list[BaseException] = []

    def ask() -> None:
        try:
            client.topics()
        except ClientClosed as closed:
            raised.append(closed)

    asking = threading.Thread(target=ask)
    asking.start()
    script.asked.get(timeout=5)
    client.close()
    asking.join(5)
    assert len(raised) == 1
    with pytest.raises(ClientClosed):
        client.topics()


def test_a_forked_child_has_connections_of_its_own(script: Script, client: driftq.Client) -> None:
    script.say(*[response(TOPICS)] * 3)
    client.topics()
    child = os.fork()
    if child == 0:
        os._exit(0 if client.topics() == ["orders"] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert client.topics() == ["orders"]
    assert len(script.connections) == 2


def test_a_call_that_waits_for_more_than_responses_is_not_stepped() -> None:
    import asyncio

    async def suspended() -> None:
        await asyncio.sleep(0)

    assert not is_stepping()
    with pytest.raises(RuntimeError, match="no plain call"):
        stepped(suspended())
    assert not is_stepping()
