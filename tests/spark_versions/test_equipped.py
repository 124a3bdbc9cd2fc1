"""Sessions that lack something say what it is: Python workers without DriftQ, and Spark Connect."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from driftq.pipeline.runtime.causes import WORKERS_WITHOUT_DRIFTQ, cause_of
from driftq.pipeline.spark.equipped import connect_refused
from tests.harness import ServerProcess
from tests.spark.topics import create, fill

ROOT = Path(__file__).parents[2]


def run(program: str, *words: str) -> str:
    """What a program on its own prints; it must end well."""
    command = [sys.executable, "-m", f"tests.spark_versions.{program}", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr[-5000:]
    return done.stdout


def tasks_without_driftq(folder: Path) -> Path:
    """A Python that has DriftQ where Spark plans, and has everything but DriftQ where tasks run."""
    installed = Path(pyspark.__file__).parents[1]
    packages = folder / "packages"
    packages.mkdir()
    for path in installed.iterdir():
        if "driftq" not in path.name:
            (packages / path.name).symlink_to(path)
    script = folder / "python"
    script.write_text(
        f'#!/bin/sh\ncase "$*" in\n*pyspark.worker*)\n'
        f'  PYTHONPATH="{packages}" exec "{sys.executable}" -S "$@";;\n'
        f'*) exec "{sys.executable}" "$@";;\nesac\n'
    )
    script.chmod(0o755)
    return script


@pytest.mark.clause("Z7")
def test_tasks_that_cannot_import_driftq_say_what_to_set(
    python: None, server: ServerProcess, url: str, tmp_path: Path
) -> None:
    """As on a cluster on whose machines DriftQ is not installed; nothing is registered."""
    create(server, "unequipped", partitions=1)
    fill(server, "unequipped", 5)
    said = run("unequipped", url, "unequipped", str(tasks_without_driftq(tmp_path)), str(tmp_path))
    read, written = said.split("=== written\n")
    for failure in (read, written):
        assert f"ImportError: {WORKERS_WITHOUT_DRIFTQ}" in failure
        assert "No module named 'driftq'" not in failure
        assert cause_of(RuntimeError(failure)).text == WORKERS_WITHOUT_DRIFTQ


@pytest.mark.clause("Z7")
def test_the_formats_work_in_a_spark_connect_session_and_jobs_are_refused_there(
    python: None, server: ServerProcess, url: str, tmp_path: Path
) -> None:
    create(server, "connected", partitions=2)
    fill(server, "connected", 30)
    said = run("connected", url, "connected", str(tmp_path / "checkpoint")).splitlines()
    assert said == ["read 30", "streamed 30", connect_refused().remedy]
