"""What is said when a pipeline cannot run: one clear line, exit code 1, no traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.pipeline.running import PipelineCommands

HANDLER = """
import driftq
from driftq.pipeline import App
app = App()
@app.worker(topics=["events.order"], effect=driftq.Effect.IDEMPOTENT)
def charge(event, context): ...
"""


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        (["run", "worker", "--once"], "name a file with handlers", 1),
        (["run", "worker", "--app", "APP", "--name", "mail"], "there is no handler 'mail', only charge", 1),
        (["run", "missing.py"], "missing.py: there is no such file", 1),
        (["run", "publishr"], "there is no job 'publishr'", 2),
        (["run", "publisher", "APP"], "a file is run alone", 2),
        (["rows", "nothing"], "there is no read model 'nothing'", 1),
        (["plan", "missing.py"], "missing.py: there is no such file", 1),
    ],
)
def test_a_mistake_is_told_in_words(tmp_path: Path, words: list[str], said: str, code: int) -> None:
    app = tmp_path / "mistaken_app.py"
    app.write_text(HANDLER)
    pipeline = PipelineCommands("http://127.0.0.1:1", tmp_path / "data")
    done = pipeline.run(*[str(app) if word == "APP" else word for word in words])
    assert said in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr + done.stdout
    assert done.returncode == code


def test_a_machine_without_java_is_told_what_to_install(tmp_path: Path) -> None:
    without = {"JAVA_HOME": str(tmp_path)}
    done = PipelineCommands("http://127.0.0.1:1", tmp_path / "data", without).run("run", "publisher", "--once")
    assert done.returncode == 1
    assert "error: Spark needs Java, and there is none here: install Java 17" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_password_is_in_nothing_that_is_said(tmp_path: Path) -> None:
    """Also not when the database that it is for cannot be reached."""
    secret = {"DRIFTQ_DATABASE_URL": "postgresql://me:hunter2@127.0.0.1:1/events"}
    pipeline = PipelineCommands("http://127.0.0.1:1", tmp_path / "data", secret)
    done = pipeline.run("rows", "latest", "--json")
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert "hunter2" not in done.stderr + done.stdout
