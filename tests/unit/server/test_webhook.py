"""A router behind HTTP: what is posted, what its answers mean, and what counts as a failure."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from driftq.model import Envelope, Message, RoutingDecision
from driftq.server.routing.webhook import WebhookFailed, WebhookRouter

MESSAGE = Message("orders", "v", "k", Envelope(tenant_id="acme"))


class Hook(ThreadingHTTPServer):
    """Answers what it is told to."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status = 200
        self.answer: Any = {}
        self.asked: list[Any] = []
        self.wait = threading.Event()
        self.wait.set()
        self.connections = 0

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A router that gave up waiting is what some tests are about."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/route?a=1"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        super().setup()
        self.hook.connections += 1

    @property
    def hook(self) -> Hook:
        assert isinstance(self.server, Hook)
        return self.server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.hook.asked.append((self.path, json.loads(body)))
        self.hook.wait.wait(5)
        content = b"" if self.hook.status == 204 else json.dumps(self.hook.answer).encode()
        self.send_response(self.hook.status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def hook() -> Iterator[Hook]:
    running = Hook()
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield running
    running.wait.set()
    running.shutdown()
    thread.join()
    running.server_close()


Make = Callable[..., WebhookRouter]


@pytest.fixture
def make() -> Iterator[Make]:
    made: list[WebhookRouter] = []

    def new(url: str, *, timeout_ms: int = 2000) -> WebhookRouter:
        made.append(WebhookRouter(url, timeout_ms=timeout_ms))
        return made[-1]

    yield new
    for router in made:
        router.close()


@pytest.mark.clause("R6")
def test_a_message_is_posted_and_the_answer_is_the_decision(hook: Hook, make: Make) -> None:
    router = make(hook.url)
    hook.answer = {"label": "l", "target_topic": "t", "partition_override": 1, "meta": {"a": "b"}}
    assert router("orders", MESSAGE) == RoutingDecision("l", "t", 1, {"a": "b"})
    hook.answer = {"label": "only"}
    assert router("orders", Message("orders", "v")) == RoutingDecision("only")
    assert hook.asked == [
        (
            "/route?a=1",
            {"topic": "orders", "message": {"key": "k", "value": "v", "envelope": {"tenant_id": "acme"}}},
        ),
        ("/route?a=1", {"topic": "orders", "message": {"key": "", "value": "v", "envelope": {}}}),
    ]
    assert hook.connections == 1, "the connection was not kept"


@pytest.mark.clause("R6")
def test_no_content_is_no_decision(hook: Hook, make: Make) -> None:
    hook.status = 204
    assert make(hook.url)("orders", MESSAGE) is None


@pytest.mark.clause("R2", "R6")
def test_other_answers_and_none_at_all_are_failures(hook: Hook, make: Make) -> None:
    hook.status = 500
    with pytest.raises(WebhookFailed):
        make(hook.url)("orders", MESSAGE)
    hook.status, hook.answer = 200, ["nonsense"]
    with pytest.raises(ValueError):
        make(hook.url)("orders", MESSAGE)
    hook.wait.clear()
    with pytest.raises(WebhookFailed, match="did not answer: timed out"):
        make(hook.url, timeout_ms=50)("orders", MESSAGE)
    with pytest.raises(WebhookFailed, match="did not answer: connection refused"):
        make("http://127.0.0.1:9/", timeout_ms=500)("orders", MESSAGE)
    with pytest.raises(ValueError, match="not an address"):
        make("nonsense", timeout_ms=500)
