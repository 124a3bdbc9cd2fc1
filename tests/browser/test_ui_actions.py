"""What can be done in the dashboard: each action asks once, says what it will do, and does it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.dashboard import Dashboard, origin
from tests.browser.traffic import AGENT_RUN, claims, fill, reading
from tests.contract.serving import Server


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Server]:
    with Server(tmp_path / "log") as server:
        fill(server)
        claims(tmp_path)
        yield server


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
        expect(page.locator("nav .bubble").first).to_have_text("3")  # Of four, with that of shipments.
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


@pytest.mark.clause("O4", "K6")
def test_an_unknown_effect_is_resolved(browser: Browser, full: Server, axe: str) -> None:
    with Dashboard(browser, origin(full)) as dashboard:
        page = dashboard.open_live("registry?state=unknown").page
        expect(page.locator("tbody tr")).to_have_count(1)
        expect(page.locator("tbody")).to_contain_text("the worker ended while the handler ran")
        page.get_by_role("button", name="It happened: the effect of charge on o-1-2").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("The handler does not run for this event again")
        assert dashboard.grave_problems(axe) == []
        dashboard.shot("resolve-dialog", whole=False)
        assert [one["event_id"] for one in full.get("/v1/registry", state="unknown").json["claims"]] == [
            "o-1-2"
        ]
        dialog.get_by_role("button", name="Mark as done").click()
        expect(page.locator("#notices")).to_contain_text("o-1-2 is resolved")
        expect(page.locator("main")).to_contain_text("No claims here")
        dashboard.shot("resolved")
        [done] = full.get("/v1/registry", state="done").json["claims"]
        assert (done["handler"], done["event_id"]) == ("charge", "o-1-2")


@pytest.mark.clause("O4")
def test_a_group_shows_who_holds_what_until_when(browser: Browser, full: Server) -> None:
    with reading(full), Dashboard(browser, origin(full)) as dashboard:
        page = dashboard.open_live("groups").page
        page.locator("summary", has_text="billing").click()
        expect(page.locator("details[open] tbody tr").first).to_contain_text("billing-1")
        dashboard.shot("group-open")
