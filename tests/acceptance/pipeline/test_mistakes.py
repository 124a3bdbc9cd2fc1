"""What is said when a pipeline cannot run: one clear line, exit code 1, no traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.pipeline.running import PipelineCommands
from tests.harness import ServerProcess

HANDLER = """
import driftq
from driftq.pipeline import App
app = App()
@app.worker(topics=["events.order"], effect=driftq.Effect.IDEMPOTENT)
def charge(event, context): ...
"""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "worker", "--once"], "a worker needs a file with handlers"),
        (["run", "worker", "--app", "APP", "--name", "mail"], "there is no handler 'mail', only charge"),
    ],
)
def test_a_mistake_is_told_in_words(tmp_path: Path, words: list[str], said: str) -> None:
    app = tmp_path / "mistaken_app.py"
    app.write_text(HANDLER)
    pipeline = PipelineCommands("http://127.0.0.1:1", tmp_path / "data")
    done = pipeline.run(*[str(app) if word == "APP" else word for word in words])
    assert said in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr + done.stdout
    assert done.returncode == 1


@pytest.mark.clause("Z1")
@pytest.mark.parametrize(
    "words", [["publisher", "--once"], ["projection"], ["worker", "--app", "APP"], ["APP", "--once"]]
)
def test_a_server_that_is_down_is_told_before_spark_is_started(tmp_path: Path, words: list[str]) -> None:
    app = tmp_path / "patient_app.py"
    app.write_text(HANDLER)
    # A Java that says its version and takes for ever to do anything else: nothing may wait for it.
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text('#!/bin/sh\n[ "$1" = -version ] && echo \'openjdk version "17.0.1"\' >&2 || sleep 600\n')
    java.chmod(0o755)
    pipeline = PipelineCommands("http://127.0.0.1:1", tmp_path / "data", {"JAVA_HOME": str(tmp_path)})
    done = pipeline.run("run", *[str(app) if word == "APP" else word for word in words])
    assert "error: no DriftQ server answers at http://127.0.0.1:1" in done.stderr
    assert "driftq serve" in done.stderr
    assert "Traceback" not in done.stderr
    assert ".log" not in done.stderr, "nothing is in that log"
    assert done.returncode == 1


@pytest.mark.clause("K7")
def test_a_registry_that_is_down_is_told_before_spark_is_started(tmp_path: Path) -> None:
    app = tmp_path / "patient_app.py"
    app.write_text(HANDLER)
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text('#!/bin/sh\n[ "$1" = -version ] && echo \'openjdk version "17.0.1"\' >&2 || sleep 600\n')
    java.chmod(0o755)
    away = {"JAVA_HOME": str(tmp_path), "DRIFTQ_DATABASE_URL": "postgresql://me:hidden@127.0.0.1:1/none"}
    with ServerProcess(tmp_path / "data") as server:
        pipeline = PipelineCommands(f"http://127.0.0.1:{server.port}", server.data, away)
        done = pipeline.run("run", "worker", "--app", str(app))
    assert "error:" in done.stderr
    assert "127.0.0.1" in done.stderr
    assert "hidden" not in done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode == 1


def test_a_machine_without_java_is_told_what_to_install(tmp_path: Path) -> None:
    without = {"JAVA_HOME": str(tmp_path)}
    done = PipelineCommands("http://127.0.0.1:1", tmp_path / "data", without).run(
        "run", "publisher", "--once"
    )
    assert done.returncode == 1
    assert "error: Spark needs Java, and there is none here: install Java 17" in done.stderr
    assert "Traceback" not in done.stderr
