"""What can be done in the dashboard, who may do it, and what a hostile message cannot do there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.dashboard import Dashboard
from tests.browser.traffic import AGENT_RUN, HOSTILE, fill
from tests.contract.keyed import KeyedServer
from tests.contract.serving import Server
from tests.support.waiting import wait_until


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Server]:
    with Server(tmp_path / "log") as server:
        fill(server)
        yield server


@pytest.fixture
def keyed(tmp_path: Path) -> Iterator[KeyedServer]:
    with KeyedServer(tmp_path) as server:
        yield server


def origin(server: Server) -> str:
    return f"http://127.0.0.1:{server.port}"


def new_key(server: KeyedServer, name: str, *roles: str, topics: Sequence[str] = ()) -> str:
    """A key that the server knows already."""
    key = server.add_key(name, *roles, topics=topics)
    server.hang_up_signal()
    wait_until("the key is known", lambda: server.ask("GET", "/v1/whoami", key=key).status == 200)
    return key


def log_in(dashboard: Dashboard, key: str) -> None:
    page = dashboard.open().page
    expect(page.get_by_role("heading", level=1)).to_have_text("Log in")
    page.get_by_label("API key").fill(key)
    page.get_by_role("button", name="Log in").click()
    page.locator('#link[data-state="live"]').wait_for()


@pytest.mark.clause("O4", "K4")
def test_a_redrive_says_what_it_will_do_and_does_it(browser: Browser, full: Server, axe: str) -> None:
    with Dashboard(browser, origin(full)) as dashboard:
        page = dashboard.open_live("dlq/payments").page
        page.get_by_role("checkbox").first.check()
        page.get_by_role("button", name="Redrive 1…").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("A dry run found 1 dead letter, of which 1 can be redriven")
        assert dashboard.grave_problems(axe) == []
        dashboard.shot("redrive-dialog", whole=False)
        assert [one.get("redriven_at") for one in full.get("/v1/dlq/payments").json["messages"]] == [None] * 3
        dialog.get_by_role("button", name="Redrive 1").click()
        expect(page.locator("#notices")).to_contain_text("1 dead letter redriven")
        expect(page.locator(".letter .state", has_text="redriven")).to_have_count(1)
        letters = full.get("/v1/dlq/payments").json["messages"]
        assert [bool(one.get("redriven_at")) for one in letters] == [True, False, False]
        page.locator(".letter summary").first.click()
        expect(page.locator(".timeline").first).to_contain_text("account 4711 is closed")
        dashboard.shot("redriven")


@pytest.mark.clause("O4")
def test_a_purge_can_be_cancelled(browser: Browser, full: Server) -> None:
    with Dashboard(browser, origin(full)) as dashboard:
        page = dashboard.open_live("dlq/payments").page
        page.get_by_role("button", name="Purge all…").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("3 dead letters will be deleted for good")
        dashboard.shot("purge-dialog", whole=False)
        dialog.get_by_role("button", name="Cancel").click()
        assert len(full.get("/v1/dlq/payments").json["messages"]) == 3
        page.get_by_role("button", name="Purge all…").click()
        dialog.get_by_role("button", name="Purge 3").click()
        expect(page.locator("main")).to_contain_text("No dead letters of payments")


@pytest.mark.clause("O4")
def test_a_dead_job_is_retried_and_a_ready_one_cancelled(browser: Browser, full: Server) -> None:
    with Dashboard(browser, origin(full)) as dashboard:
        page = dashboard.open_live("jobs?state=dead").page
        page.get_by_role("link", name="job-1").click()
        expect(page.locator("main")).to_contain_text("ConnectionRefusedError")
        dashboard.shot("job-dead")
        page.get_by_role("button", name="Retry").click()
        page.get_by_role("dialog").get_by_role("button", name="Retry").click()
        expect(page.locator("h1 .state")).to_have_text("ready")
        assert full.get("/v1/jobs/job-1").json["state"] == "ready"
        page.get_by_role("button", name="Cancel").click()
        page.get_by_role("dialog").get_by_role("button", name="Cancel the job").click()
        expect(page.locator("h1 .state")).to_have_text("dead")
        assert full.get("/v1/jobs/job-1").json["state"] == "dead"


@pytest.mark.clause("O4", "I11")
def test_an_unknown_step_is_resolved_with_its_result(browser: Browser, full: Server) -> None:
    with Dashboard(browser, origin(full)) as dashboard:
        page = dashboard.open_live().page
        page.get_by_role("link", name="Resolve: 1 step of runs has an unknown outcome").click()
        expect(page.locator("main tbody tr").first).to_contain_text("UNKNOWN")
        page.get_by_role("link", name=AGENT_RUN).first.click()
        page.get_by_role("button", name="It happened: step charge").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Result").fill('{"charge_id": "ch-17"')
        dialog.get_by_role("button", name="Mark as done").click()
        expect(dialog.locator(".problem")).to_contain_text("JSON")
        dialog.get_by_label("Result").fill('{"charge_id": "ch-17"}')
        dashboard.shot("resolve-dialog", whole=False)
        dialog.get_by_role("button", name="Mark as done").click()
        expect(page.locator("#notices")).to_contain_text("charge is resolved")
        identity = f"topic=steps&group=agent&idempotency_key=step:{AGENT_RUN}/charge"
        shown = full.get(f"/v1/idempotency/status?{identity}").json
        assert (shown["status"], shown["result"]) == ("COMMITTED", {"charge_id": "ch-17"})


@pytest.mark.clause("O4", "J15", "J18", "J20")
def test_queues_and_schedules_are_limited_paused_and_run(browser: Browser, full: Server) -> None:
    with Dashboard(browser, origin(full)) as dashboard:
        page = dashboard.open_live("queues").page
        page.get_by_role("button", name="Limit mail").click()
        dialog = page.get_by_role("dialog")
        expect(dialog.get_by_label("Jobs at once", exact=True)).to_have_value("20")
        dialog.get_by_label("Jobs at once, of one limit key").fill("")
        dialog.get_by_label("in any window of seconds").first.fill("0.5")
        dashboard.shot("limit-dialog", whole=False)
        dialog.get_by_role("button", name="Set the limits").click()
        expect(page.locator("#notices")).to_contain_text("mail: 20 at once, 100 per 500 ms.")
        page.get_by_role("button", name="Resume video").click()
        dialog.get_by_role("button", name="Resume").click()
        expect(page.get_by_role("button", name="Pause video")).to_be_visible()
        queues = {one["queue"]: one for one in full.get("/v1/queues").json["queues"]}
        assert queues["mail"]["limits"] == {"concurrency": 20, "rate": {"count": 100, "per_ms": 500}}
        assert not queues["video"]["paused"]
        page = dashboard.open_live("schedules").page
        page.get_by_role("button", name="Run now: nightly").click()
        dialog.get_by_role("button", name="Run").click()
        expect(page.locator("#notices")).to_contain_text("job-8 of nightly is ready.")
        page.get_by_role("button", name="Resume poll").click()
        dialog.get_by_role("button", name="Resume").click()
        expect(page.get_by_role("button", name="Pause poll")).to_be_visible()


@pytest.mark.clause("Y6", "Y6b")
def test_a_hostile_message_is_text_everywhere(browser: Browser, full: Server) -> None:
    full.produce("orders", HOSTILE, HOSTILE, run_id=HOSTILE, step_id=HOSTILE, tenant_id=HOSTILE)
    full.produce("orders", '{"' + HOSTILE.replace('"', "'") + '": "x"}', "k")
    with full.consume("orders", group=HOSTILE, owner=HOSTILE, lease_ms=60_000) as stream:
        lines = stream.take(42)
        assert lines
        for line in lines[-3:]:
            fields = {"group": HOSTILE, "owner": HOSTILE, "reason": HOSTILE, "retryable": False}
            assert full.settle("nack", "orders", line, **fields).status == 204
        with Dashboard(browser, origin(full)) as dashboard:
            for path in ("", "topics/orders", "messages/orders/40", "groups", "dlq/orders", "jobs/job-1"):
                page = dashboard.open_live(path).page
                dashboard.open_details()
                expect(page.locator("main")).to_contain_text("onerror" if path else "Overview")
                assert page.evaluate("window.hit") is None
                assert page.locator("main img, main script").count() == 0
            dashboard.shot("hostile")


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
