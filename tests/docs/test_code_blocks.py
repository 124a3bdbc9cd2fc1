"""The Python blocks of every page run, in a process of their own, against a real server."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.test_pasted import PAGES as PASTED
from tests.harness import ServerProcess

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PAGES = [
    page
    for page in sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
    if BLOCK.search(page.read_text()) and page.relative_to(ROOT).as_posix() not in PASTED
]
"""Those that are pasted as a whole, with their commands, are run by test_pasted.py."""
PATIENCE_S = 240.0
"""A page may start Spark, and others may keep the machine busy."""
DEFAULT_URL = "http://127.0.0.1:8080"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("server") / "data") as started:
        yield started


def run(command: list[str], folder: Path, server: ServerProcess) -> str:
    url = f"http://127.0.0.1:{server.port}"
    environ = {**os.environ, "DRIFTQ_URL": url, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    ran = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_blocks_of_a_page_run_one_behind_the_other(
    page: Path, tmp_path: Path, server: ServerProcess
) -> None:
    program = "\n\n".join(BLOCK.findall(page.read_text()))
    program = program.replace(DEFAULT_URL, f"http://127.0.0.1:{server.port}")
    if "\ndef test_" in program:
        (tmp_path / "test_page.py").write_text(program)
        said = run(["-m", "pytest", "-q", "-p", "driftq.testing.plugin", "test_page.py"], tmp_path, server)
        assert f"{program.count('def test_')} passed" in said
    else:
        (tmp_path / "page.py").write_text(program)
        run(["page.py"], tmp_path, server)
