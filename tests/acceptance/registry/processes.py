"""Starting and killing the worker process."""

import subprocess
import sys
from pathlib import Path

from driftq.registry import Effect
from tests.acceptance.registry.conftest import Site

ROOT = Path(__file__).resolve().parents[3]


def start(site: Site, effect: Effect, *, stop_at: str = "never", events: int = 1) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.acceptance.registry.worker_process", *site.arguments]
    return subprocess.Popen(
        [*command, effect.value, stop_at, str(events)],
        cwd=ROOT,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def kill_at(site: Site, effect: Effect, step: str) -> None:
    """Run a worker up to this step and kill it there with SIGKILL."""
    process = start(site, effect, stop_at=step)
    assert process.stdout is not None
    assert process.stdout.readline() == f"at {step}\n"
    kill(process)


def run(site: Site, effect: Effect, *, events: int = 1) -> list[str]:
    """Run a worker to its end and return what it said."""
    said, _ = start(site, effect, events=events).communicate(timeout=60)
    return said.splitlines()
