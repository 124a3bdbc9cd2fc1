"""What `driftq pipeline` says without Spark: plans, status, rows, lines, and mistakes."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from driftq.cli.pipeline_lines import LiveLines, LogLines, sentence
from driftq.pipeline.runtime.reports import (
    EndReport,
    FailureReport,
    NoticeReport,
    ProgressReport,
    RefusalReport,
    StartedReport,
)
from driftq.pipeline.runtime.status import JobStatus, PipelineJobState, StatusFolder
from tests.support.waiting import wait_until
from tests.unit.cli.conftest import Run

APP = """
import driftq
from driftq.pipeline import App, Projection
app = App()
app.projection(Projection("totals", topics=["events.order", "events.user"]))
@app.worker(topics=["events.order"], effect=driftq.Effect.IDEMPOTENT)
def charge(event, context): ...
"""
BUSY = JobStatus(
    job="publisher", state=PipelineJobState.RUNNING, last_batch=12, rows=51_200, rows_per_second=4210.4, lag=0
)


def test_the_plan_of_an_app(run: Run, folder: Path) -> None:
    (folder / "planned_app.py").write_text(APP)
    said = json.loads(run("pipeline", "plan", "planned_app.py", "--json").stdout)
    assert said == {
        "file": "planned_app.py",
        "jobs": [
            {
                "job": "worker-charge",
                "kind": "worker",
                "sources": ["events.order"],
                "does": "charge",
                "sinks": ["registry"],
                "effect": "idempotent",
                "family": "instance",
                "gap_policy": "ordered",
            },
            {
                "job": "projection-totals",
                "kind": "projection",
                "sources": ["events.order", "events.user"],
                "does": "latest_state",
                "sinks": ["read_models"],
                "effect": None,
                "family": None,
                "gap_policy": None,
            },
        ],
    }
    drawn = run("pipeline", "plan", "planned_app.py").stdout
    assert "worker-charge" in drawn
    assert "events.user" in drawn


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        (["run", "publishr"], "there is no job 'publishr'", 2),
        (["run", "publisher", "app.py"], "a file runs alone", 2),
        (["run", "publisher", "--from", "driftq:a"], "--from and --to are for a bridge", 2),
        (["run", "bridge", "--from", "driftq:a"], "--to: a bridge needs --from and --to", 2),
        (["run", "bridge", "--from", "driftq:a", "--to", "driftq:b"], "both ends are on driftq", 2),
        (["run", "bridge", "bridge", "--from", "driftq:a", "--to", "kafka:a"], "a run has one bridge", 2),
        (["plan", "missing.py"], "missing.py: there is no such file", 1),
        (["rows", "nothing"], "there is no read model 'nothing'", 1),
        (["rows", "nothing", "--app", "missing.py"], "missing.py: there is no such file", 1),
    ],
)
def test_a_mistake_is_told_in_words(run: Run, folder: Path, words: list[str], said: str, code: int) -> None:
    done = run("pipeline", *words)
    assert said in " ".join(done.stderr.replace("│", " ").split())
    assert done.exit_code == code


def test_a_password_is_in_nothing_that_is_said(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRIFTQ_DATABASE_URL", "postgresql://me:hunter2@127.0.0.1:1/events")
    done = run("pipeline", "rows", "latest", "--json")
    assert done.exit_code == 1
    assert done.stderr.startswith("error: ")
    assert "hunter2" not in done.output


def test_status_has_a_line_for_each_job(run: Run, folder: Path) -> None:
    assert json.loads(run("pipeline", "status", "--json").stdout) == {"jobs": []}
    kept = StatusFolder(str(folder / "driftq-data" / "pipeline"))
    kept.write(BUSY)
    kept.write(
        JobStatus(job="worker-charge", state=PipelineJobState.FAILED, error="no registry", checkpoint="/c")
    )
    publisher, worker = json.loads(run("pipeline", "status", "--json").stdout)["jobs"]
    names = ("job", "state", "last_batch", "rows", "lag", "checkpoint")
    assert [publisher[name] for name in names] == ["publisher", "running", 12, 51_200, 0, None]
    assert [worker[name] for name in names] == ["worker-charge", "failed", None, 0, None, "/c"]
    shown = run("pipeline", "status").stdout
    assert "51,200" in shown
    assert "no registry" in shown


def test_a_job_in_one_line() -> None:
    assert sentence(BUSY) == "batch 12, 4,210 rows/s, lag 0, 51,200 rows in all"
    begun = JobStatus(job="a", state=PipelineJobState.WAITING, error="no server")
    assert sentence(begun) == "no batch yet, 0 rows/s, 0 rows in all, no server"


@pytest.mark.clause("U5")
def test_the_log_says_at_intervals_how_far_each_job_is(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    line = f"publisher: {sentence(BUSY)}"
    with LogLines(0.01) as lines:
        lines.hear(StartedReport("publisher"))
        lines.hear(ProgressReport(BUSY))
        wait_until("it is told twice", lambda: caplog.messages.count(line) >= 2)
        lines.hear(FailureReport("publisher", "no server", 2.0))
        lines.hear(NoticeReport("publisher", "half"))
        lines.hear(EndReport("publisher"))
    told = [message for message in caplog.messages if message != line]
    assert told == [
        "publisher: started",
        "publisher: no server; restarting in 2 s",
        "publisher: half",
        f"publisher: ended after {sentence(BUSY)}",
    ]


def test_a_terminal_shows_one_line_for_each_job(capsys: pytest.CaptureFixture[str]) -> None:
    lines = LiveLines()
    with lines:
        lines.hear(StartedReport("publisher"))
        lines.hear(ProgressReport(BUSY))
        lines.hear(NoticeReport("publisher", "half [of] it"))
        lines.hear(FailureReport("publisher", "no server", None))
        lines.hear(RefusalReport("no Java"))
        lines.hear(EndReport("publisher"))
    said = capsys.readouterr().err
    for part in ("half [of] it", "publisher: no server", "error: no Java", "batch 12, 4,210 rows/s"):
        assert part in said
