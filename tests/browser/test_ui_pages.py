"""Every page of the dashboard: empty and full, light and dark, wide and narrow, for every reader."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.browser.dashboard import NARROW, SCREENSHOTS, Dashboard, origin
from tests.browser.traffic import AGENT_RUN, CHILD, RUN, claims, fill, reading
from tests.contract.serving import Server

LISTS = {
    "": "Overview",
    "topics": "Topics",
    "groups": "Groups",
    "jobs": "Jobs",
    "queues": "Queues",
    "schedules": "Schedules",
    "dlq": "Dead letters",
    "runs": "Runs",
    "events": "Events",
    "registry": "Registry",
    "pipelines": "Pipelines",
}
"""Addresses that exist on every server, with their titles."""
THINGS = {
    "topics/orders": "Topic orders",
    "messages/payments/0": "Message 0 of payments",
    "jobs/job-1": "Job job-1",
    "dlq/payments": "Dead letters of payments",
    f"jobs/{CHILD}": f"Job {CHILD}",
    f"runs/{RUN}": f"Run {RUN}",
    f"runs/{AGENT_RUN}": f"Run {AGENT_RUN}",
    "events/order/o-1": "order o-1",
}
PAGES = LISTS | THINGS


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    data = tmp_path_factory.mktemp("full")
    with Server(data / "log") as server:
        fill(server)
        claims(data)
        states = {job["state"] for job in server.get("/v1/jobs").json["jobs"]}
        assert states == {"ready", "scheduled", "blocked", "in_flight", "succeeded", "dead"}
        with reading(server):
            yield server


def name_of(path: str) -> str:
    return path.replace("/", "-") or "overview"


@pytest.mark.clause("O4")
@pytest.mark.parametrize("path", LISTS)
def test_a_page_without_anything_says_what_to_do_next(
    browser: Browser, server: Server, axe: str, path: str
) -> None:
    with Dashboard(browser, origin(server)) as dashboard:
        dashboard.open_live(path)
        dashboard.page.locator("main pre.command, main .empty").first.wait_for()
        assert dashboard.title == f"{LISTS[path]} · DriftQ"
        assert dashboard.headings() == [LISTS[path]]
        dashboard.shot(f"empty-{name_of(path)}")
        assert dashboard.grave_problems(axe) == []


@pytest.mark.clause("O4")
@pytest.mark.parametrize("path", PAGES)
def test_a_page_with_everything_is_whole_and_open_to_all(
    browser: Browser, full: Server, axe: str, path: str
) -> None:
    with Dashboard(browser, origin(full)) as dashboard:
        dashboard.open_live(path)
        assert dashboard.title == f"{PAGES[path]} · DriftQ"
        assert len(dashboard.headings()) == 1
        if not path:
            dashboard.page.locator("main .attention .unknown").wait_for()
        dashboard.shot(f"full-{name_of(path)}")
        dashboard.open_details()
        assert dashboard.overflow() <= 0
        assert dashboard.grave_problems(axe) == []
        dashboard.page.reload()
        dashboard.page.locator("main h1").wait_for()
        assert dashboard.title == f"{PAGES[path]} · DriftQ"


@pytest.mark.clause("O4")
@pytest.mark.parametrize("path", PAGES)
def test_a_page_on_a_telephone_in_the_dark(browser: Browser, full: Server, axe: str, path: str) -> None:
    with Dashboard(browser, origin(full), size=NARROW, dark=True) as dashboard:
        dashboard.open_live(path)
        dashboard.shot(f"narrow-{name_of(path)}")
        dashboard.open_details()
        assert dashboard.overflow() <= 0
        assert dashboard.grave_problems(axe) == []


@pytest.mark.clause("O4")
def test_the_overview_moves_with_the_traffic_within_a_second(browser: Browser, tmp_path: Path) -> None:
    with Server(tmp_path / "log") as server, Dashboard(browser, origin(server)) as dashboard:
        topic = server.new_topic()
        dashboard.open_live()
        dashboard.wait_live("topics", "1 topic")
        for number in range(30):
            server.produce(topic, f"message {number}")
        dashboard.wait_live("messages", "30 messages")
        with server.consume(topic, group="slow", prefetch=5) as stream:
            stream.take(5)
            dashboard.wait_live("in_flight", "5")
            dashboard.wait_live("lag", "30")
            for offset in range(5):
                server.settle("ack", topic, {"partition": 0, "offset": offset}, group="slow")
            dashboard.wait_live("lag", "25")
        elapsed = dashboard.page.evaluate(
            """() => new Promise((tell) => {
              const began = performance.now();
              const source = new EventSource('/v1/ui/live');
              let seen = 0;
              source.addEventListener('overview', () => {
                seen += 1;
                if (seen === 3) { source.close(); tell(performance.now() - began); }
              });
            })"""
        )
        assert elapsed > 900, "more than one event a second"
        dashboard.shot("live-overview")


@pytest.mark.clause("O4")
def test_everything_can_be_reached_with_the_keyboard(browser: Browser, full: Server) -> None:
    with Dashboard(browser, origin(full)) as dashboard:
        page = dashboard.open_live("topics").page
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "main"
        page.keyboard.press("/")
        page.keyboard.type("payments/0")
        page.keyboard.press("Enter")
        page.wait_for_url("**/v1/ui/messages/payments/0")
        page.get_by_role("heading", level=1, name="payments / 0").wait_for()
        assert page.evaluate("document.activeElement.id") == "title"
        page.go_back()
        page.get_by_role("heading", level=1, name="Topics").wait_for()


@pytest.mark.clause("O4")
@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("orders", "topics/orders"),
        ("job-1", "jobs/job-1"),
        (RUN, f"runs/{RUN}"),
        ("order/o-1", "events/order/o-1"),
    ],
)
def test_the_search_box_leads_to_anything(browser: Browser, full: Server, text: str, path: str) -> None:
    with Dashboard(browser, origin(full)) as dashboard:
        page = dashboard.open_live().page
        page.locator("#search-text").fill(text)
        page.locator("#search-text").press("Enter")
        page.wait_for_url(f"**/v1/ui/{path}")


@pytest.mark.clause("O4")
def test_the_chosen_theme_outlives_a_reload(browser: Browser, full: Server) -> None:
    with Dashboard(browser, origin(full)) as dashboard:
        page = dashboard.open_live().page
        before = page.evaluate("getComputedStyle(document.body).backgroundColor")
        page.locator("#theme").click()
        page.locator("#theme").click()
        assert page.locator("#theme").inner_text() == "Theme: dark"
        page.reload()
        page.locator("main h1").wait_for()
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before
        page.locator("main .attention .unknown", has_text="The effect of charge").wait_for()
        dashboard.shot("dark-overview")


@pytest.mark.clause("O4")
def test_a_server_that_was_away_is_found_again(browser: Browser, tmp_path: Path) -> None:
    with Server(tmp_path / "log") as server, Dashboard(browser, origin(server)) as dashboard:
        dashboard.open_live()
        server.kill()
        dashboard.page.locator('#link[data-state="lost"]').wait_for()
        server.start()
        dashboard.page.locator('#link[data-state="live"]').wait_for()
        dashboard.errors.clear()  # The browser reports each refused connection.


def first_paint(dashboard: Dashboard) -> float:
    """How long the overview takes to show something, with nothing in the browser's cache: milliseconds."""
    session = dashboard.page.context.new_cdp_session(dashboard.page)
    session.send("Network.clearBrowserCache")
    dashboard.open_live()
    entry = "performance.getEntriesByName('first-contentful-paint')[0]"
    dashboard.page.wait_for_function(entry)
    return float(dashboard.page.evaluate(f"{entry}.startTime"))


@pytest.mark.clause("O4")
def test_the_pages_are_small_and_come_at_once(browser: Browser, full: Server) -> None:
    with Dashboard(browser, origin(full)) as dashboard:
        sizes: dict[str, int] = {}
        dashboard.page.on(
            "response",
            lambda answer: (
                sizes.update({answer.url: len(answer.body())}) if "/static/" in answer.url else None
            ),
        )
        painted = min(first_paint(dashboard) for _ in range(3))  # Others use this machine as well.
        assert painted < 1_000
        assert len(sizes) > 10
        assert sum(sizes.values()) < 150_000
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        (SCREENSHOTS / "budget.txt").write_text(
            f"first paint {painted:.0f} ms, {sum(sizes.values())} bytes in {len(sizes)} files\n"
        )
