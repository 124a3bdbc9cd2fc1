"""Windows runs clients: what they import is there, and what Windows lacks is not asked for."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.harness import ServerProcess

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WINDOWS = {"sys_platform": "win32", "platform_system": "Windows", "os_name": "nt", "extra": ""}

AS_ON_WINDOWS = """
import importlib.abc, os, sys

class Missing(importlib.abc.MetaPathFinder):
    names = {"fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "uvloop", "posix_ipc"}
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

for name in Missing.names & set(sys.modules):
    del sys.modules[name]
sys.meta_path.insert(0, Missing())
del os.register_at_fork
"""


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", AS_ON_WINDOWS + program, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_nothing_that_windows_lacks_is_installed_there() -> None:
    asked = [Requirement(text) for text in PROJECT["dependencies"]]
    there = {one.name for one in asked if one.marker is None or one.marker.evaluate(dict(WINDOWS))}
    here = {one.name for one in asked}
    assert here - there == {"uvloop"}
    assert "Operating System :: Microsoft :: Windows" in PROJECT["classifiers"]


@pytest.mark.parametrize(
    "module", ["driftq", "driftq.client", "driftq.worker", "driftq.model", "driftq.errors", "driftq.cli.app"]
)
def test_what_a_client_imports_is_there(module: str) -> None:
    done = run(f"import {module}")
    assert done.returncode == 0, done.stderr


def test_a_client_produces_and_consumes_without_uvloop(tmp_path: Path) -> None:
    program = """
import driftq
with driftq.Client(sys.argv[1]) as client:
    client.create_topic("orders")
    client.produce("orders", {"id": 1}, key="k")
    [found] = client.messages.find("orders", key="k")
    with client.consume("orders", "g") as deliveries:
        delivery = next(iter(deliveries))
        delivery.ack()
    print(delivery.json(), found.json(), "uvloop" in sys.modules)
"""
    with ServerProcess(tmp_path / "data") as server:
        done = run(program, f"http://127.0.0.1:{server.port}")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "{'id': 1} {'id': 1} False\n"


def test_the_command_line_runs_as_a_module(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        program = "import runpy; sys.argv[0] = 'driftq'; runpy.run_module('driftq', run_name='__main__')"
        done = run(program, "topic", "create", "orders", "--url", f"http://127.0.0.1:{server.port}")
        assert done.returncode == 0, done.stderr
        shown = subprocess.run(
            [sys.executable, "-m", "driftq", "--version"], capture_output=True, text=True, check=True
        )
    assert shown.stdout.strip()
