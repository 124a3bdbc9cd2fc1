"""A browser and a server for the tests of the pages."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.contract.serving import Server
from tests.support.npm import PackageUnavailable, package

REBOUND = "rebound.example"
"""A stranger's name, which the browser takes to be at this machine, as the stranger's DNS could tell it."""
_NAMES = ("chromium", "chromium-browser", "google-chrome")
_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    f"--host-resolver-rules=MAP {REBOUND} 127.0.0.1",
]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The machine's own Chromium; `make test-services` installs it where it may."""
    path = next(filter(None, map(shutil.which, _NAMES)), None)
    if path is None:
        pytest.skip("Chromium is missing: make test-services installs it, or says how")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=path, args=_ARGUMENTS)
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder: Path = tmp_path_factory.mktemp("server") / "log"
    with Server(folder) as running:
        yield running


@pytest.fixture(scope="session")
def axe() -> str:
    """The accessibility checker, as a script."""
    try:
        return (package("axe-core") / "axe.min.js").read_text(encoding="utf-8")
    except PackageUnavailable as problem:
        pytest.skip(str(problem))
