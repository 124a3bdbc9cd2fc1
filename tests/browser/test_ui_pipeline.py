"""The dashboard beside a pipeline that runs: Spark publishes events and folds them while the page is open."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.dashboard import Dashboard
from tests.harness import ServerProcess

SPARK_MS = 180_000
"""It starts beside other tests."""


def append(server: ServerProcess, first: int, count: int) -> None:
    for number in range(first, first + count):
        event = {"event_id": f"e-{number}", "aggregate_type": "order", "aggregate_id": f"o-{number % 10}"}
        event |= {"event_type": "order.changed", "kind": "order", "operation": "append"}
        answer = server.client().post("/v1/events", event | {"payload": {"number": number}})
        assert answer.status == 201, answer


@pytest.mark.clause("O4")
@pytest.mark.timeout(600)
def test_a_running_pipeline_moves_on_the_page(browser: Browser, axe: str, tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        url = f"http://127.0.0.1:{server.port}"
        append(server, 0, 100)
        command = [sys.executable, "-m", "driftq", "pipeline", "run", "publisher", "projection"]
        with (tmp_path / "log").open("wb") as log:
            driver = subprocess.Popen(
                [*command, "--url", url, "--data", str(server.data)],
                cwd=tmp_path,
                env=os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"},
                stdout=log,
                stderr=log,
            )
        try:
            with Dashboard(browser, url) as dashboard:
                page = dashboard.open_live("pipelines").page
                card = page.locator('section[data-key="projection-latest"]')
                expect(card.locator(".state")).to_have_text("running", timeout=SPARK_MS)
                rows = card.locator("dt", has_text="Rows in all").locator("xpath=../dd")
                expect(rows).to_have_text("100", timeout=SPARK_MS)
                append(server, 100, 50)
                expect(rows).to_have_text("150", timeout=SPARK_MS)  # Nobody has reloaded the page.
                expect(page.locator('section[data-key="publisher"] .state')).to_have_text("running")
                assert dashboard.grave_problems(axe) == []
                dashboard.shot("pipeline-running")
                page = dashboard.open_live("topics/events.order").page
                expect(page.locator("main")).to_contain_text("Readers")
                dashboard.shot("pipeline-topic")
        finally:
            driver.terminate()
            assert driver.wait(60) == 0, (tmp_path / "log").read_text()[-4_000:]
