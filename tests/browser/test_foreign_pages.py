"""A page from elsewhere, in a real browser, against a server on this machine."""

import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.conftest import REBOUND
from tests.contract.serving import Server

_PAGE = b"<!doctype html><title>elsewhere</title><link rel=icon href='data:,'><p>elsewhere"


class _Elsewhere(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(_PAGE)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name it has there.
        """Nobody needs it."""


@contextlib.contextmanager
def elsewhere(address: str) -> Iterator[int]:
    """A web server that is not ours; its port."""
    site = ThreadingHTTPServer((address, 0), _Elsewhere)
    thread = threading.Thread(target=site.serve_forever)
    thread.start()
    try:
        yield site.server_address[1]
    finally:
        site.shutdown()
        thread.join()
        site.server_close()


@pytest.fixture(params=["127.0.0.1", "localhost", "127.0.0.2"])
def page(request: pytest.FixtureRequest, browser: Browser) -> Iterator[Page]:
    """A page of another port of the same address, of the same machine's name, and of another address."""
    address = "127.0.0.2" if request.param == "127.0.0.2" else "127.0.0.1"
    with elsewhere(address) as port:
        opened = browser.new_page()
        opened.goto(f"http://{request.param}:{port}/")
        yield opened
        opened.close()


FETCH = """async ([url, options]) => {
  try {
    const answer = await fetch(url, options);
    return [answer.type, answer.status, await answer.text()];
  } catch (error) {
    return ["refused", 0, ""];
  }
}"""


class Statuses:
    """Of all answers that the browser gets from now on, whether it shows them to the page or not."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._seen: list[int] = []
        network = page.context.new_cdp_session(page)
        network.send("Network.enable")
        network.on(
            "Network.responseReceivedExtraInfo", lambda answer: self._seen.append(answer["statusCode"])
        )

    def next(self, count: int) -> list[int]:
        while len(self._seen) < count:
            self._page.wait_for_timeout(5)  # Lets the browser's events in.
        return self._seen


def stored(server: Server, topic: str) -> list[str]:
    return [line["value"] for line in server.get(f"/v1/topics/{topic}/records").lines]


@pytest.mark.clause("Y6", "Y6a")
@pytest.mark.parametrize("mode", ["no-cors", "cors"])
def test_a_foreign_page_stores_and_reads_nothing_by_fetch(server: Server, page: Page, mode: str) -> None:
    topic = server.new_topic()
    server.produce(topic, "secret")
    answered = Statuses(page)
    own = f"http://127.0.0.1:{server.port}"
    body = f'{{"topic":"{topic}","value":"forged"}}'
    asked = [
        (f"{own}/v1/produce", {"method": "POST", "body": body}),
        (f"{own}/v1/produce?topic={topic}&value=forged", {"method": "POST"}),
        (f"{own}/v1/topics/{topic}/records", {"method": "GET"}),
        (f"{own}/v1/consume?topic={topic}&group=g&owner=o", {"method": "GET"}),
        (f"{own}/v1/topics/{topic}/groups/g/reset", {"method": "POST", "body": '{"to":"latest"}'}),
    ]
    for url, options in asked:
        kind, _, text = page.evaluate(FETCH, [url, options | {"mode": mode}])
        assert kind in ("opaque", "refused")
        assert "secret" not in text
    assert answered.next(len(asked)) == [403] * len(asked)
    assert stored(server, topic) == ["secret"]
    assert server.get(f"/v1/topics/{topic}").json["groups"] == []


@pytest.mark.clause("Y6", "Y6a")
def test_a_foreign_page_stores_nothing_by_a_form(server: Server, page: Page) -> None:
    """A form sends the browser itself to the server; so does a link."""
    topic = server.new_topic()
    target = f"http://127.0.0.1:{server.port}/v1/produce?topic={topic}&value=forged"
    page.set_content(f'<form method="post" action="{target}"><button>go</button></form>')
    with page.expect_navigation() as navigated:
        page.get_by_role("button").click()
    assert navigated.value.status == 403
    assert navigated.value.json()["error"] == "PERMISSION_DENIED"
    assert stored(server, topic) == []


@pytest.mark.clause("Y6", "Y6a")
def test_a_foreign_page_gets_nothing_by_a_web_socket(server: Server, page: Page) -> None:
    topic = server.new_topic()
    server.produce(topic, "secret")
    outcome = page.evaluate(
        """(url) => new Promise((tell) => {
          const socket = new WebSocket(url);
          socket.onopen = () => tell("open");
          socket.onmessage = (message) => tell(message.data);
          socket.onerror = () => tell("refused");
        })""",
        f"ws://127.0.0.1:{server.port}/v1/consume?topic={topic}&group=g&owner=o",
    )
    assert outcome == "refused"
    assert server.get(f"/v1/topics/{topic}").json["groups"] == []


@pytest.mark.clause("Y6", "Y6a")
def test_the_servers_own_page_can_do_both(server: Server, browser: Browser) -> None:
    topic = server.new_topic()
    page = browser.new_page()
    page.goto(f"http://localhost:{server.port}/v1/docs")
    body = f'{{"topic":"{topic}","value":"mine"}}'
    _, status, _ = page.evaluate(FETCH, ["/v1/produce", {"method": "POST", "body": body}])
    assert status == 200
    _, status, text = page.evaluate(FETCH, [f"/v1/topics/{topic}/records", {}])
    assert (status, "mine" in text) == (200, True)
    page.close()


@pytest.mark.clause("Y6", "Y6a")
def test_a_name_that_was_rebound_to_this_machine_is_refused(server: Server, browser: Browser) -> None:
    """For the browser such a page is the server's own."""
    page = browser.new_page()
    for path in ("/v1/docs", "/v1/topics"):
        answer = page.goto(f"http://{REBOUND}:{server.port}{path}")
        assert answer is not None
        assert (answer.status, answer.json()["kind"]) == (403, "HostRefused")
    page.close()
