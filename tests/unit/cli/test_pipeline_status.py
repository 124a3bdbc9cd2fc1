"""What `driftq pipeline status` and a running pipeline say of jobs whose driver is dead."""

import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from driftq.cli.pipeline_lines import LogLines
from driftq.pipeline.runtime.reports import DRIVER, EndReport, FailureReport, ProgressReport
from driftq.pipeline.runtime.status import JobStatus, PipelineJobState, StatusFolder


def died() -> int:
    """The number of a process that is no more."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


def status(folder: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "driftq", "pipeline", "status", "--data", str(folder), *words],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.mark.clause("U5")
def test_a_dead_driver_is_told_with_its_last_sign_of_life_and_without_a_lag(tmp_path: Path) -> None:
    driver = died()
    StatusFolder(str(tmp_path / "pipeline")).write(
        JobStatus(
            job="publisher",
            state=PipelineJobState.RUNNING,
            last_batch=7,
            rows=51_200,
            rows_per_second=4_210.0,
            lag=0,
            driver=driver,
            updated_at="2026-01-05T10:00:00.000000Z",
        )
    )
    said = status(tmp_path)
    assert (
        f"publisher: not running: its driver (process {driver}) died; "
        "last heard of at 2026-01-05T10:00:00Z" in said
    )
    (told,) = json.loads(status(tmp_path, "--json"))["jobs"]
    assert (told["state"], told["lag"], told["rows_per_second"]) == ("gone", None, 0.0)
    assert told["not_running_since"] == "2026-01-05T10:00:00.000000Z"


@pytest.mark.clause("U5")
def test_while_a_driver_is_dead_its_jobs_old_numbers_are_not_repeated(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "driftq.pipeline")
    lines = LogLines(600)
    lines.hear(ProgressReport(JobStatus(job="publisher", state=PipelineJobState.RUNNING, rows=12, lag=0)))
    lines.hear(FailureReport(DRIVER, "the driver ended with signal SIGKILL", 1.0))
    lines.hear(EndReport("publisher"))
    assert caplog.messages == [
        "driver: the driver ended with signal SIGKILL; restarting in 1 s",
        "publisher: ended",
    ]


def test_a_target_that_is_away_is_said_beside_the_job_that_waits_for_it(tmp_path: Path) -> None:
    waiting = JobStatus(
        job="projection-latest",
        state=PipelineJobState.RUNNING,
        last_batch=3,
        away="the database postgresql://db/app is not available (connection refused)",
    )
    StatusFolder(str(tmp_path / "pipeline")).write(waiting)
    said = status(tmp_path)
    assert "target away" in said
    assert (
        "projection-latest: a target is away, waiting for it: "
        "the database postgresql://db/app is not available (connection refused)" in said
    )
    (told,) = json.loads(status(tmp_path, "--json"))["jobs"]
    assert (told["state"], told["away"]) == ("running", waiting.away)
