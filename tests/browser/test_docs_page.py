"""The page at /v1/docs, as a browser shows it."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from driftq.http.api.openapi import document
from driftq.http.api.route import Route
from driftq.http.api.router import ROUTES
from tests.contract.serving import Server

DOCUMENT = document(ROUTES, version="test")


@pytest.fixture
def problems() -> list[str]:
    """What the browser complains about."""
    return []


@pytest.fixture
def page(browser: Browser, server: Server, problems: list[str]) -> Iterator[Page]:
    opened = browser.new_page()
    opened.on("pageerror", lambda error: problems.append(str(error)))
    opened.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
    opened.goto(f"http://127.0.0.1:{server.port}/v1/docs")
    opened.get_by_role("heading", name="Types").wait_for()  # It stands behind all operations.
    yield opened
    opened.close()


@pytest.mark.clause("H5")
def test_every_operation_and_every_type_is_on_the_page(page: Page, problems: list[str]) -> None:
    shown = [
        (line.locator(".method").inner_text(), line.locator("code").inner_text())
        for line in page.locator("summary:has(.method)").all()
    ]
    assert shown == [(route.method, route.path) for route in _in_document_order()]
    types = page.locator("summary:not(:has(.method)) code").all_inner_texts()
    assert types == list(DOCUMENT["components"]["schemas"])
    assert problems == []


def _in_document_order() -> list[Route]:
    by_path: dict[str, list[Route]] = {}
    for route in ROUTES:
        by_path.setdefault(route.path, []).append(route)
    return [route for routes in by_path.values() for route in routes]


@pytest.mark.clause("H5")
def test_an_operation_opens_and_shows_its_fields_and_answers(page: Page, problems: list[str]) -> None:
    box = page.locator("details", has=page.get_by_text("/v1/lease/extend", exact=True))
    box.locator("summary").click()
    fields = box.locator("table").first.locator("td:first-child").all_inner_texts()
    assert {"topic", "group", "owner", "partition", "offset", "lease_ms"} <= set(fields)
    answers = box.locator("table").last.locator("td:first-child").all_inner_texts()
    assert {"204", "400", "403", "409", "503"} <= set(answers)
    assert problems == []
