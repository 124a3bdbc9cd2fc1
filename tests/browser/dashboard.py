"""A page of the dashboard in a browser: what it asks and says, how it looks, and whether all can use it."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Self

from playwright.sync_api import Browser, Locator, Page, Request

from tests.contract.serving import Server

ROOT = Path(__file__).resolve().parents[2]
SCREENSHOTS = Path(os.environ.get("DRIFTQ_SCREENSHOTS", ROOT / "build/screenshots"))
WIDE = (1280, 800)
NARROW = (390, 844)
GRAVE = ("serious", "critical")
_PATIENCE_MS = 20_000


def origin(server: Server) -> str:
    """Where a browser finds the server."""
    return f"http://127.0.0.1:{server.port}"


class Dashboard:
    """One browser context with one page; leaving it checks that nothing went wrong on the way."""

    def __init__(
        self,
        browser: Browser,
        origin: str,
        *,
        size: tuple[int, int] = WIDE,
        dark: bool = False,
        **context: Any,
    ) -> None:
        self.origin = origin
        self._context = browser.new_context(
            viewport={"width": size[0], "height": size[1]},
            color_scheme="dark" if dark else "light",
            base_url=origin,
            **context,
        )
        self.page: Page = self._context.new_page()
        self.page.set_default_timeout(_PATIENCE_MS)
        self.errors: list[str] = []
        self.foreign: list[str] = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda said: self.errors.append(said.text) if said.type == "error" else None)
        self.page.on("request", self._requested)

    def _requested(self, request: Request) -> None:
        if not request.url.startswith((self.origin + "/", "data:")):
            self.foreign.append(request.url)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._context.close()
        if kind is None:
            assert self.foreign == [], "the page asked another server"
            assert [text for text in self.errors if not _is_expected(text)] == []

    def open(self, path: str = "") -> Self:
        """Load an address, and wait until its page is shown."""
        self.page.goto(f"/v1/ui/{path}")
        self.page.locator("main h1").wait_for()
        return self

    def open_live(self, path: str = "") -> Self:
        self.open(path)
        self.page.locator('#link[data-state="live"]').wait_for()
        return self

    def shot(self, name: str, *, whole: bool = True) -> None:
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=whole)

    @property
    def title(self) -> str:
        return self.page.title()

    def headings(self) -> list[str]:
        return self.page.locator("h1").all_inner_texts()

    def live(self, name: str) -> Locator:
        return self.page.locator(f'[data-live="{name}"]')

    def number(self, name: str) -> float:
        """A live value as a number; -1 where there is none."""
        digits = re.sub(r"[^0-9.]", "", self.live(name).first.inner_text())
        return float(digits) if digits else -1.0

    def wait_live(self, name: str, text: str) -> None:
        """The live value has to become this, soon."""
        self.page.wait_for_function(
            "([name, text]) => document.querySelector(`[data-live='${name}']`)?.textContent === text",
            arg=[name, text],
        )

    def open_details(self) -> None:
        self.page.evaluate("document.querySelectorAll('main details').forEach((one) => { one.open = true; })")

    def overflow(self) -> int:
        """How many pixels the page is wider than the window."""
        return int(
            self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        )

    def grave_problems(self, axe: str) -> list[str]:
        """What an accessibility check finds that keeps people out."""
        self.page.evaluate(axe)
        found = self.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        return [
            f"{one['id']}: {one['help']} {[node['target'] for node in one['nodes']][:4]}"
            for one in found["violations"]
            if one["impact"] in GRAVE
        ]


def _is_expected(text: str) -> bool:
    """The browser itself reports every answer that is an error; the page shows those to its reader."""
    return text.startswith("Failed to load resource: the server responded with a status of 40")
