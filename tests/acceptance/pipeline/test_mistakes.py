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
    ("words", "said"),
    [
        (["run", "worker", "--once"], "name a file with handlers"),
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


def test_a_machine_without_java_is_told_what_to_install(tmp_path: Path) -> None:
    without = {"JAVA_HOME": str(tmp_path)}
    done = PipelineCommands("http://127.0.0.1:1", tmp_path / "data", without).run(
        "run", "publisher", "--once"
    )
    assert done.returncode == 1
    assert "error: Spark needs Java, and there is none here: install Java 17" in done.stderr
    assert "Traceback" not in done.stderr
