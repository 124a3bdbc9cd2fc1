"""Who sees and does what in the dashboard, and what a hostile message cannot do there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.dashboard import Dashboard, origin
from tests.browser.traffic import HOSTILE, fill
from tests.contract.keyed import KeyedServer
from tests.contract.serving import Server
from tests.support.waiting import wait_until


@pytest.fixture
def keyed(tmp_path: Path) -> Iterator[KeyedServer]:
    with KeyedServer(tmp_path) as server:
        yield server


def new_key(server: KeyedServer, name: str, *roles: str, topics: Sequence[str] = (), **more: Any) -> str:
    """A key that the server knows already."""
    key = server.add_key(name, *roles, topics=topics, **more)
    server.hang_up_signal()
    wait_until("the key is known", lambda: server.ask("GET", "/v1/whoami", key=key).status == 200)
    return key


def log_in(dashboard: Dashboard, key: str) -> None:
    page = dashboard.open().page
    expect(page.get_by_role("heading", level=1)).to_have_text("Log in")
    page.get_by_label("API key").fill(key)
    page.get_by_role("button", name="Log in").click()
    page.locator('#link[data-state="live"]').wait_for()


@pytest.mark.clause("Y1", "Y6", "Y6b")
def test_a_key_opens_a_session_that_no_script_can_read(
    browser: Browser, keyed: KeyedServer, axe: str
) -> None:
    with Dashboard(browser, origin(keyed)) as dashboard:
        page = dashboard.open("topics").page
        expect(page.get_by_role("heading", level=1)).to_have_text("Log in")
        assert dashboard.title == "Log in · DriftQ"
        dashboard.shot("login")
        assert dashboard.grave_problems(axe) == []
        page.get_by_label("API key").fill("dq_000000000000_wrong")
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("alert")).to_contain_text("not valid here")
        page.get_by_label("API key").fill(keyed.admin)
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Topics")
        [cookie] = page.context.cookies()
        assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Strict", "/v1")
        assert keyed.admin not in cookie["value"]
        assert page.evaluate("document.cookie") == ""
        assert page.evaluate("JSON.stringify([localStorage, sessionStorage])") == "[{},{}]"
        page.reload()
        expect(page.get_by_role("heading", level=1)).to_have_text("Topics")
        page.get_by_role("button", name="Log out").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Log in")
        assert page.context.cookies() == []


@pytest.mark.clause("Y2", "O4")
def test_a_read_only_key_sees_everything_and_no_actions(browser: Browser, keyed: KeyedServer) -> None:
    reader = new_key(keyed, "looker", "read")
    for name in ("orders", "payments"):
        assert keyed.ask("POST", "/v1/topics", {"name": name}, key=keyed.admin).status == 201
    keyed.ask("POST", "/v1/jobs", {"queue": "q", "task": "t", "payload": 1}, key=keyed.admin)
    with Dashboard(browser, origin(keyed)) as dashboard:
        log_in(dashboard, reader)
        page = dashboard.open_live("jobs/job-0").page
        expect(page.locator("[data-read-only]")).to_contain_text("the key “looker” lacks the role admin")
        assert page.locator("main button").count() == 0
        dashboard.shot("read-only")


@pytest.mark.clause("Y2")
def test_a_key_for_some_topics_sees_only_those(browser: Browser, keyed: KeyedServer) -> None:
    limited = new_key(keyed, "orders-only", "read", topics=["orders*"])
    for name in ("orders", "secrets"):
        assert keyed.ask("POST", "/v1/topics", {"name": name}, key=keyed.admin).status == 201
        body = {"topic": name, "value": "v"}
        assert keyed.ask("POST", "/v1/produce", body, key=keyed.admin).status == 200
    with Dashboard(browser, origin(keyed)) as dashboard:
        log_in(dashboard, limited)
        dashboard.wait_live("topics", "1 topic")
        dashboard.wait_live("messages", "1 message")
        page = dashboard.open_live("topics").page
        expect(page.locator("tbody tr")).to_have_count(1)
        expect(page.locator("main")).not_to_contain_text("secrets")


@pytest.mark.clause("Y4")
def test_a_revoked_key_ends_its_session(browser: Browser, keyed: KeyedServer) -> None:
    leaving = new_key(keyed, "leaving", "read")
    with Dashboard(browser, origin(keyed)) as dashboard:
        log_in(dashboard, leaving)
        keyed.revoke("leaving")
        keyed.hang_up_signal()
        expect(dashboard.page.get_by_role("heading", level=1)).to_have_text("Log in")
        dashboard.errors.clear()  # The browser reports the stream that was cut.


@pytest.mark.clause("Y3", "O4")
def test_a_tenant_sees_nothing_of_another(browser: Browser, keyed: KeyedServer) -> None:
    acme = new_key(keyed, "acme", "admin", tenant="acme")
    globex = new_key(keyed, "globex", "admin", tenant="globex")
    for key, name in ((acme, "secret"), (globex, "own")):
        assert keyed.ask("POST", "/v1/topics", {"name": f"{name}.topic"}, key=key).status == 201
        envelope = {"run_id": f"{name}-run", "step_id": "plan"}
        message = {"topic": f"{name}.topic", "key": f"{name}-key", "value": f"{name}", "envelope": envelope}
        assert keyed.ask("POST", "/v1/produce", message, key=key).status == 200
        job = {"queue": f"{name}.queue", "task": f"{name}-task", "payload": name}
        assert keyed.ask("POST", "/v1/jobs", job, key=key).status == 201
        event: dict[str, Any] = {
            "event_id": f"{name}-1",
            "aggregate_type": f"{name}.type",
            "aggregate_id": "1",
            "kind": "k",
        }
        event |= {"event_type": f"{name}.made", "operation": "create", "payload": {}}
        assert keyed.ask("POST", "/v1/events", event, key=key).status == 201
    with Dashboard(browser, origin(keyed)) as dashboard:
        log_in(dashboard, globex)
        dashboard.wait_live("topics", "1 topic")
        for path, own in TENANT_PAGES.items():
            page = dashboard.open_live(path).page
            dashboard.open_details()
            expect(page.locator("main")).to_contain_text(own)
            expect(page.locator("main")).not_to_contain_text("secret")
        dashboard.open_live("topics").shot("tenant-topics")
        for path in ("topics/secret.topic", "messages/secret.topic/0", "jobs/job-0", "runs/secret-run"):
            page = dashboard.open(path).page
            expect(page.locator("main h1")).to_have_text("Not found")
            expect(page.locator("main")).not_to_contain_text("plan")
        dashboard.shot("tenant-foreign")


TENANT_PAGES = {
    "": "Overview",
    "topics": "own.topic",
    "topics/own.topic": "own-key",
    "jobs": "own-task",
    "queues": "own.queue",
    "events": "own.made",
    "runs/own-run": "plan",
    "groups": "No groups yet",
    "dlq": "No dead letters",
}


@pytest.mark.clause("Y6", "Y6b")
@pytest.mark.timeout(600)
def test_what_a_user_sent_is_text_on_every_page(browser: Browser, tmp_path: Path) -> None:
    with Server(tmp_path / "log") as server:
        fill(server)
        fill_with_markup(server)
        word = quote(HOSTILE, safe="")
        pages = [
            "",
            "topics",
            "topics/orders",
            "messages/orders/40",
            "groups",
            "jobs",
            "jobs/job-1",
            "queues",
        ]
        pages += [
            "schedules",
            "dlq",
            "dlq/orders",
            f"runs/{word}",
            "events",
            f"events/{word}/{word}",
            "pipelines",
        ]
        pages += [
            f"jobs?queue={word}",
            f"topics?name={word}",
            f"topics/orders?key={word}",
            f"registry?handler={word}",
        ]
        pages += [f"topics/{word}", f"jobs/{word}", f"dlq/{word}"]
        with Dashboard(browser, origin(server)) as dashboard:
            for path in pages:
                page = dashboard.open(path).page
                page.locator("main h1").wait_for()
                dashboard.open_details()
                assert page.evaluate("window.hit") is None, path
                assert page.locator("main img, main script").count() == 0, path
                if path in SHOWING:
                    expect(page.locator("main")).to_contain_text("onerror")
            dashboard.open_live("dlq/orders").open_details()
            dashboard.shot("hostile")


SHOWING = (
    "topics/orders",
    "messages/orders/40",
    "groups",
    "jobs/job-1",
    "queues",
    "dlq/orders",
    "pipelines",
    "events",
)


def fill_with_markup(server: Server) -> None:
    """Markup wherever a user may write what they like."""
    server.produce("orders", HOSTILE, HOSTILE, run_id=HOSTILE, step_id=HOSTILE, tenant_id=HOSTILE)
    server.produce("orders", '{"' + HOSTILE.replace('"', "'") + '": "x"}', "k")
    with server.consume("orders", group=HOSTILE, owner=HOSTILE, lease_ms=60_000) as stream:
        for line in stream.take(42)[-3:]:
            fields = {"group": HOSTILE, "owner": HOSTILE, "reason": HOSTILE, "retryable": False}
            assert server.settle("nack", "orders", line, **fields).status == 204
    job = {"queue": HOSTILE, "task": HOSTILE, "payload": {HOSTILE: HOSTILE}, "metadata": {"note": HOSTILE}}
    event: dict[str, Any] = {
        "event_id": HOSTILE,
        "aggregate_type": HOSTILE,
        "aggregate_id": HOSTILE,
        "event_type": HOSTILE,
    }
    event |= {"kind": HOSTILE, "operation": "create", "payload": HOSTILE, "metadata": {HOSTILE: HOSTILE}}
    report = {"kind": HOSTILE, "state": "failed", "error": HOSTILE, "checkpoint": HOSTILE, "sinks": [HOSTILE]}
    sent = [server.post("/v1/jobs", job), server.post("/v1/events", event)]
    sent.append(server.post("/v1/pipelines/hostile/progress", report | {"driver": HOSTILE}))
    assert [answer.status for answer in sent] == [201, 201, 204], sent
