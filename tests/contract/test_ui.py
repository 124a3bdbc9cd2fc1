"""The dashboard as a browser's requests see it: its files, sessions, numbers and lists."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from tests.contract.keyed import KeyedServer
from tests.contract.serving import PATIENCE_S, Answer, Server
from tests.support.waiting import wait_until

OWN = {"Sec-Fetch-Site": "same-origin"}
PAGES = ("", "topics", "topics/orders", "messages/orders/7", "jobs/job-1?x=1", "dlq/orders", "runs/a%2Fb")
STRICT = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'"


@pytest.fixture
def keyed(tmp_path: Path) -> Iterator[KeyedServer]:
    with KeyedServer(tmp_path) as server:
        yield server


class Overviews:
    """The events of one stream; the next one is waited for."""

    def __init__(self, server: Server, headers: dict[str, str] | None = None) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
        self._connection.request("GET", "/v1/ui/live", headers=headers or {})
        self._response = self._connection.getresponse()
        self.status = self._response.status
        self.kind = self._response.headers["Content-Type"]

    def next(self) -> dict[str, Any]:
        while line := self._response.readline():
            if line.startswith(b"data: "):
                return dict(json.loads(line[6:]))
        raise AssertionError("the stream has ended")

    def ended(self) -> bool:
        return not self._response.readline()

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def log_in(server: KeyedServer, key: str) -> str:
    """The cookie of a new session."""
    answer = server.ask("POST", "/v1/ui/session", {"key": key}, key=None, headers=OWN)
    assert answer.status == 200, answer
    return answer.headers["Set-Cookie"].partition(";")[0]


def with_cookie(
    server: KeyedServer, method: str, path: str, cookie: str, body: Any = None, **headers: str
) -> Answer:
    sent = {"Cookie": cookie} | {name.replace("_", "-"): text for name, text in headers.items()}
    return server.ask(method, path, body, key=None, headers=sent)


# Files


@pytest.mark.clause("Y1", "Y6", "Y6b")
@pytest.mark.parametrize("path", PAGES)
def test_every_address_is_the_same_page_with_a_strict_policy(server: Server, path: str) -> None:
    answer = server.get(f"/v1/ui/{path}")
    assert (answer.status, answer.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith(STRICT)
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    text = answer.content.decode()
    assert re.findall(r"<script(?![^>]* src=)", text) == []
    assert re.findall(r" style=| on\w+=|<style", text) == []


def test_the_short_address_leads_to_the_page(server: Server) -> None:
    answer = server.get("/v1/ui")
    assert (answer.status, answer.headers["Location"], answer.content) == (302, "/v1/ui/", b"")


def test_a_browser_that_has_a_file_gets_it_no_second_time(server: Server) -> None:
    first = server.get("/v1/ui/static/app.js")
    assert first.headers["Content-Type"] == "text/javascript; charset=utf-8"
    again = server.call("GET", "/v1/ui/static/app.js", headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status, again.content) == (304, b"")
    other = server.call("GET", "/v1/ui/static/app.js", headers={"If-None-Match": '"other"'})
    assert (other.status, other.content) == (200, first.content)


@pytest.mark.parametrize(
    "path",
    [
        "nothing",
        "static/nothing.js",
        "static/..%2Ffiles.py",
        "static/../files.py",
        "static/parts/%2E%2E%2Fapp.js",
        "static/index.html",
        "static/__init__.py",
        "topics/",
        "a/b/c/d",
    ],
)
def test_there_is_nothing_else(server: Server, path: str) -> None:
    server.get(f"/v1/ui/{path}").refused(404, "NOT_FOUND")


@pytest.mark.clause("Y1")
def test_with_keys_the_files_need_none_and_what_they_show_does(keyed: KeyedServer) -> None:
    for path in ("", "topics", "static/app.js", "static/parts/dom.js"):
        assert keyed.ask("GET", f"/v1/ui/{path}", key=None).status == 200
    for path in ("live", "view/topics", "view/groups", "view/leases?topic=x"):
        keyed.ask("GET", f"/v1/ui/{path}", key=None).refused(401, "UNAUTHENTICATED")


# Sessions


@pytest.mark.clause("Y1", "Y6", "Y6b")
def test_a_session_stands_for_its_key(keyed: KeyedServer) -> None:
    reader = keyed.add_key("reader", "read")
    keyed.hang_up_signal()
    wait_until("the key is known", lambda: keyed.ask("GET", "/v1/whoami", key=reader).status == 200)
    answer = keyed.ask("POST", "/v1/ui/session", {"key": reader}, key=None, headers=OWN)
    assert answer.json == {"name": "reader", "roles": ["read"], "tenant": None, "topics": []}
    said = answer.headers["Set-Cookie"]
    assert re.fullmatch(r"driftq_session=[\w-]{43}; Path=/v1; Max-Age=43200; HttpOnly; SameSite=Strict", said)
    cookie = said.partition(";")[0]
    assert with_cookie(keyed, "GET", "/v1/whoami", cookie).json["name"] == "reader"
    body = {"name": "orders"}
    with_cookie(keyed, "POST", "/v1/topics", cookie, body, Sec_Fetch_Site="same-origin").refused(
        403, "PERMISSION_DENIED"
    )
    assert with_cookie(keyed, "DELETE", "/v1/ui/session", cookie, Sec_Fetch_Site="same-origin").status == 204
    with_cookie(keyed, "GET", "/v1/whoami", cookie).refused(401, "UNAUTHENTICATED")


@pytest.mark.clause("Y6", "Y6a", "Y6b")
def test_only_a_page_of_the_server_changes_anything_with_a_cookie(keyed: KeyedServer) -> None:
    cookie = log_in(keyed, keyed.admin)
    body = {"name": "orders"}
    own = f"http://127.0.0.1:{keyed.port}"
    with_cookie(keyed, "POST", "/v1/topics", cookie, body).refused(401, "UNAUTHENTICATED")
    for foreign in ({"Origin": "http://evil.example"}, {"Sec_Fetch_Site": "same-site"}, {"Origin": "null"}):
        with_cookie(keyed, "POST", "/v1/topics", cookie, body, **foreign).refused(403, "PERMISSION_DENIED")
    assert keyed.ask("GET", "/v1/topics", key=keyed.admin).json == {"topics": []}
    assert with_cookie(keyed, "POST", "/v1/topics", cookie, body, Origin=own).status == 201


@pytest.mark.clause("Y4")
def test_wrong_keys_are_limited_when_logging_in(keyed: KeyedServer) -> None:
    def attempt() -> Answer:
        body = {"key": "dq_000000000000_wrong"}
        return keyed.ask("POST", "/v1/ui/session", body, key=None, source="127.0.0.9", headers=OWN)

    assert [attempt().status for _ in range(20)] == [401] * 20
    limited = next(answer for answer in (attempt() for _ in range(200)) if answer.status != 401)
    limited.refused(429, "RESOURCE_EXHAUSTED")
    assert int(limited.headers["Retry-After"]) >= 1
    assert keyed.ask("POST", "/v1/ui/session", {"key": keyed.admin}, key=None, headers=OWN).status == 200


@pytest.mark.parametrize("body", [b"", b"{}", b'{"key":""}', b'{"key":1}', b'{"key":"x","more":1}'])
def test_a_login_has_a_key_in_its_body(keyed: KeyedServer, body: bytes) -> None:
    keyed.ask("POST", "/v1/ui/session", body, key=None).refused(400, "INVALID_ARGUMENT")


@pytest.mark.clause("Y4")
def test_a_key_in_an_address_is_refused(keyed: KeyedServer) -> None:
    """It would be in the logs of every proxy."""
    answer = keyed.ask("POST", f"/v1/ui/session?key={keyed.admin}", b"", key=None, headers=OWN)
    answer.refused(400, "INVALID_ARGUMENT")


@pytest.mark.clause("Y4")
def test_a_session_ends_with_its_key(keyed: KeyedServer) -> None:
    leaving = keyed.add_key("leaving", "read")
    keyed.hang_up_signal()
    wait_until("the key is known", lambda: keyed.ask("GET", "/v1/whoami", key=leaving).status == 200)
    cookie = log_in(keyed, leaving)
    with Overviews(keyed, {"Cookie": cookie}) as stream:
        stream.next()
        keyed.revoke("leaving")
        keyed.hang_up_signal()
        wait_until("the stream ends", stream.ended)
    with_cookie(keyed, "GET", "/v1/whoami", cookie).refused(401, "UNAUTHENTICATED")


def test_without_keys_there_is_nothing_to_log_in_to(server: Server) -> None:
    answer = server.post("/v1/ui/session", {"key": "whatever"})
    assert (answer.status, answer.json["name"]) == (200, "")
    assert "Set-Cookie" not in answer.headers


# Numbers


@pytest.mark.clause("O4")
def test_the_overview_counts_what_there_is(tmp_path: Path) -> None:
    with Server(tmp_path / "log") as server:
        topic = server.new_topic(partitions=2)
        for number in range(10):
            server.produce(topic, "v", f"k{number}")
        server.post("/v1/jobs", {"queue": "q", "task": "t", "payload": 1})
        server.post("/v1/jobs", {"queue": "q", "task": "t", "payload": 1, "run_at": "2100-01-01T00:00:00Z"})
        with server.consume(topic, prefetch=4, lease_ms=60_000) as stream, Overviews(server) as overviews:
            lines = stream.take(4)
            assert server.settle("nack", topic, lines[0], reason="no", retryable=False).status == 204
            assert overviews.kind == "text/event-stream; charset=utf-8"
            found = overviews.next()
            while found["in_flight"] != 4 or found["dead_letters"] != 1:
                found = overviews.next()
            assert (found["topics"], found["messages"], found["groups"]) == (1, 10, 1)
            assert (found["streams"], found["lag"]) == (1, 9)
            assert found["jobs"] == {"ready": 1, "scheduled": 1, "blocked": 0, "in_flight": 0, "dead": 0}
            assert found["unknown_steps"] == 0
            assert found["dead_letter_topics"] == [{"topic": topic, "messages": 1}]
            assert found["slowest"] == [{"topic": topic, "lag": 9, "in_flight": 4}]
            assert (found["stalled"], found["unread"]) == ([], [])
        with Overviews(server) as overviews:
            found = overviews.next()
            while not found["unread"]:
                found = overviews.next()
            assert found["unread"] == [{"topic": topic, "group": "g", "lag": 9}]


def begin(server: Server, step: str, *, lease_ms: int, **fields: Any) -> int:
    effect = {"topic": "steps", "group": "agent", "idempotency_key": f"step:{step}", "owner": "a"}
    begun = server.post("/v1/idempotency/begin", effect | {"lease_ms": lease_ms} | fields)
    assert begun.json["outcome"] == "proceed", begun
    return int(begun.json["token"])


@pytest.mark.clause("O4", "O1", "I11")
def test_steps_that_are_not_done_are_listed_and_counted(tmp_path: Path) -> None:
    with Server(tmp_path / "log") as server:
        begin(server, "run-1/held", lease_ms=600_000, effect="unknown")
        begin(server, "run-1/again", lease_ms=1, effect="idempotent")
        begin(server, "run-2/lost", lease_ms=1, effect="unknown", tenant_id="acme")
        begin(server, "no-step", lease_ms=1)
        wait_until("two leases are over", lambda: server.get("/v1/ui/view/steps").json["in_flight"] == 1)
        found = server.get("/v1/ui/view/steps").json
        assert [(one["run_id"], one["step_id"], one["state"]) for one in found["steps"]] == [
            ("run-2", "lost", "unknown"),
            ("run-1", "held", "in_flight"),
            ("run-1", "again", "lapsed"),
        ]
        assert (found["unknown"], found["steps"][0]["tenant_id"]) == (1, "acme")
        assert len(server.get("/v1/ui/view/steps", limit=1).json["steps"]) == 2
        server.get("/v1/ui/view/steps", limit=0).refused(400, "INVALID_ARGUMENT")
        with Overviews(server) as overviews:
            assert overviews.next()["unknown_steps"] == 1
        metrics = server.get("/v1/metrics").content.decode()
        assert "\ndriftq_steps_unknown 1.0\n" in metrics
        assert "\ndriftq_effects_open 4.0\n" in metrics


@pytest.mark.clause("O1")
def test_what_the_relay_of_an_outbox_reports_becomes_metrics(tmp_path: Path) -> None:
    with Server(tmp_path / "log") as server:
        report = {"kind": "outbox", "state": "waiting", "lag": 3, "dead_letters": 2}
        assert server.post("/v1/pipelines/outbox-shop/progress", report).status == 204
        assert server.post("/v1/pipelines/latest/progress", report | {"kind": "projection"}).status == 204
        metrics = server.get("/v1/metrics").content.decode()
        assert '\ndriftq_outbox_waiting{outbox="outbox-shop"} 3.0\n' in metrics
        assert '\ndriftq_outbox_parked{outbox="outbox-shop"} 2.0\n' in metrics
        assert metrics.count("driftq_outbox_waiting{") == 1


@pytest.mark.clause("O4")
def test_rates_are_per_second(tmp_path: Path) -> None:
    with Server(tmp_path / "log") as server, Overviews(server) as overviews:
        topic = server.new_topic()
        assert overviews.next()["rates"] is None
        overviews.next()
        for _ in range(50):
            server.produce(topic, "v")
        produced = overviews.next()["rates"]["produced"]
        while not produced:
            produced = overviews.next()["rates"]["produced"]
        assert 0 < produced <= 60
        with Overviews(server) as later:
            assert any(point["produced"] for point in later.next()["past"])


@pytest.mark.clause("Y2")
def test_a_key_for_some_topics_gets_sums_over_those(keyed: KeyedServer) -> None:
    limited = keyed.add_key("orders-only", "read", topics=["orders*"])
    keyed.hang_up_signal()
    wait_until("the key is known", lambda: keyed.ask("GET", "/v1/whoami", key=limited).status == 200)
    for name in ("orders", "secrets"):
        assert keyed.ask("POST", "/v1/topics", {"name": name}, key=keyed.admin).status == 201
        keyed.ask("POST", "/v1/produce", {"topic": name, "value": "v"}, key=keyed.admin)
    with Overviews(keyed, {"Authorization": f"Bearer {limited}"}) as stream:
        stream.next()
        found = stream.next()
    assert (found["topics"], found["messages"], found["rates"]) == (1, 1, None)
    assert "secrets" not in json.dumps(found)
    shown = keyed.ask("GET", "/v1/ui/view/topics", key=limited).json
    assert [row["topic"] for row in shown["topics"]] == ["orders"]
    refused = keyed.ask("GET", "/v1/ui/view/leases", key=limited, topic="secrets")
    refused.refused(403, "PERMISSION_DENIED")


@pytest.mark.clause("Y3", "O4")
def test_a_tenants_key_gets_sums_over_what_the_tenant_owns(keyed: KeyedServer) -> None:
    acme = keyed.add_key("acme", "admin", tenant="acme")
    keyed.hang_up_signal()
    wait_until("the key is known", lambda: keyed.ask("GET", "/v1/whoami", key=acme).status == 200)
    for name, key in (("acmes", acme), ("secrets", keyed.admin)):
        assert keyed.ask("POST", "/v1/topics", {"name": name}, key=key).status == 201
        keyed.ask("POST", "/v1/produce", {"topic": name, "value": "v"}, key=key)
    with Overviews(keyed, {"Authorization": f"Bearer {acme}"}) as stream:
        stream.next()
        found = stream.next()
    assert (found["topics"], found["messages"], found["rates"]) == (1, 1, None)
    assert "secrets" not in json.dumps(found)
    shown = keyed.ask("GET", "/v1/ui/view/topics", key=acme).json
    assert [row["topic"] for row in shown["topics"]] == ["acmes"]
    assert keyed.ask("GET", "/v1/ui/view/leases", key=acme, topic="secrets").status == 404


# Lists


def test_topics_and_groups_come_in_pages(tmp_path: Path) -> None:
    with Server(tmp_path / "log") as server:
        names = [server.new_topic() for _ in range(5)]
        for name in names:
            with server.consume(name, group="a/b") as stream:
                assert stream.status == 200
        first = server.get("/v1/ui/view/topics", limit=3).json
        assert [row["topic"] for row in first["topics"]] == names[:3]
        rest = server.get("/v1/ui/view/topics", limit=3, after=first["after"]).json
        assert ([row["topic"] for row in rest["topics"]], rest["after"]) == (names[3:], None)
        assert [row["topic"] for row in server.get("/v1/ui/view/topics", match="-4").json["topics"]] == [
            "topic-4"
        ]
        groups = server.get("/v1/ui/view/groups", limit=2).json
        assert [row["topic"] for row in groups["groups"]] == names[:2]
        assert groups["after"] == "topic-2/a/b"
        rest = server.get("/v1/ui/view/groups", after=groups["after"]).json
        assert [row["topic"] for row in rest["groups"]] == names[2:]


def test_leases_say_who_holds_what_until_when(tmp_path: Path) -> None:
    with Server(tmp_path / "log") as server:
        topic = server.new_topic()
        for _ in range(5):
            server.produce(topic, "v")
        with server.consume(topic, owner="ada", prefetch=2, lease_ms=60_000) as stream:
            stream.take(2)
            found = server.get("/v1/ui/view/leases", topic=topic).json
            assert [
                (one["owner"], one["group"], one["offset"], one["attempt"]) for one in found["leases"]
            ] == [
                ("ada", "g", 0, 1),
                ("ada", "g", 1, 1),
            ]
            assert found["in_flight"] == 2
            assert found["leases"][0]["lease_until"] > found["created_at"]
            assert server.get("/v1/ui/view/leases", topic=topic, group="other").json["leases"] == []
        server.get("/v1/ui/view/leases", topic="nothing").refused(404, "NOT_FOUND")
        server.get("/v1/ui/view/leases", topic="~jobs").refused(404, "NOT_FOUND")
