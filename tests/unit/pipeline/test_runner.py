"""Jobs under the runner, with queries that are no Spark: each test says what they do."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from driftq.model.backoff import Backoff
from driftq.pipeline.runtime.progress import ProgressTracker
from driftq.pipeline.runtime.reports import Reporter, read_report
from driftq.pipeline.runtime.runner import PipelineJobFailed, Runner
from driftq.pipeline.runtime.status import StatusFolder
from driftq.settings import load_settings

TRACE = 'Traceback (most recent call last):\n  File "a.py", line 1\n'


class Query:
    """A query that is over as soon as somebody looks, or goes on."""

    def __init__(self, name: str, failure: str | None, *, goes_on: bool) -> None:
        self.id, self.name = "query", name
        self.isActive = goes_on
        self.recentProgress: list[Any] = []
        self.status = {"message": "Waiting for data to arrive"}
        self._failure = failure

    def exception(self) -> Exception | None:
        return None if self._failure is None else RuntimeError(TRACE + self._failure)

    def stop(self) -> None:
        self.isActive = False


class StreamedJob:
    """Each start takes the next plan: an exception, the failure of its query, or that it goes on."""

    def __init__(self, name: str, *plans: Exception | str | None) -> None:
        self.name = name
        self._plans: Iterator[Exception | str | None] = iter(plans)
        self.starts = 0

    def start(self, spark: Any, *, once: bool) -> Any:
        self.starts += 1
        plan = next(self._plans, None)
        if isinstance(plan, Exception):
            raise plan
        return Query(self.name, plan, goes_on=plan is None and not once)


class EndingJob:
    name = "compact"

    def __init__(self, work: Callable[[], None] = lambda: None) -> None:
        self._work = work

    def run(self, spark: Any, report: Callable[[str], None]) -> None:
        report("half")
        self._work()


class Stage:
    """A runner, and what it reported."""

    def __init__(self, folder: Path) -> None:
        options = load_settings(environ={}).pipeline(data=str(folder))
        self._pipe = io.BytesIO()
        self.status = StatusFolder(options.folder)
        reporter = Reporter(self._pipe, options)
        progress = ProgressTracker(self.status, reporter, checkpoint=options.checkpoint)
        self.enough: Callable[[], bool] = lambda: False
        self.runner = Runner(
            cast("Any", None), progress, reporter, stop=lambda: self.enough(), backoff=Backoff(0, 0)
        )

    def reports(self, *kinds: str) -> list[Any]:
        lines = map(read_report, self._pipe.getvalue().splitlines())
        return [report for report in lines if type(report).__name__ in kinds]

    def state(self, job: str) -> tuple[str, str | None]:
        known = self.status.read(job)
        assert known is not None
        return known.state, known.error


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def test_jobs_that_run_once_run_in_turn(stage: Stage) -> None:
    stage.runner.run_once([StreamedJob("publisher"), EndingJob(), StreamedJob("projection-latest")])
    assert [report.job for report in stage.reports("StartedReport")] == [
        "publisher",
        "compact",
        "projection-latest",
    ]
    assert [report.job for report in stage.reports("EndReport")] == [
        "publisher",
        "compact",
        "projection-latest",
    ]
    assert [report.text for report in stage.reports("NoticeReport")] == ["half"]
    assert stage.state("publisher") == ("ended", None)


def test_a_failure_that_stays_ends_a_run_that_happens_once(stage: Stage) -> None:
    first, second = StreamedJob("publisher", *["KeyError: gone"] * 3), StreamedJob("worker-charge")
    with pytest.raises(PipelineJobFailed, match="publisher: KeyError: gone"):
        stage.runner.run_once([first, second])
    assert (first.starts, second.starts) == (3, 0)
    assert [report.retry_s for report in stage.reports("FailureReport")] == [0.0, 0.0, None]
    assert stage.state("publisher") == ("failed", "KeyError: gone")


def test_a_failure_that_passes_does_not_end_it(stage: Stage) -> None:
    stage.runner.run_once([StreamedJob("publisher", "KeyError: gone", "KeyError: gone")])
    assert stage.state("publisher") == ("ended", None)


def test_work_with_an_end_that_fails_is_marked(stage: Stage) -> None:
    def fail() -> None:
        raise ValueError("no table")

    with pytest.raises(ValueError, match="no table"):
        stage.runner.run_once([EndingJob(fail)])
    assert stage.state("compact") == ("failed", "no table")


@pytest.mark.clause("Z6")
def test_a_query_that_fails_is_started_again_while_others_go_on(stage: Stage) -> None:
    failing, steady = (
        StreamedJob("publisher", "KeyError: gone", "KeyError: gone"),
        StreamedJob("worker-charge"),
    )
    stage.enough = lambda: failing.starts == 3
    stage.runner.run_on([failing, steady])
    assert steady.starts == 1
    assert [(report.job, report.retry_s) for report in stage.reports("FailureReport")] == [
        ("publisher", 0.0)
    ] * 2
    assert stage.state("worker-charge") == ("ended", None)


def test_a_start_that_fails_later_is_tried_again(stage: Stage) -> None:
    job = StreamedJob("publisher", "KeyError: gone", ConnectionError("no server"))
    stage.enough = lambda: job.starts == 3
    stage.runner.run_on([job])
    assert [report.error for report in stage.reports("FailureReport")] == ["KeyError: gone", "no server"]


def test_what_cannot_start_is_not_tried_again_unless_it_ran_before(stage: Stage) -> None:
    with pytest.raises(ConnectionError):
        stage.runner.run_on([StreamedJob("publisher", ConnectionError("no server"))])
    assert stage.state("publisher") == ("failed", "no server")
    job = StreamedJob("publisher", ConnectionError("no server"))
    stage.enough = lambda: job.starts == 2
    stage.runner.run_on([job], patient=True)
    assert job.starts == 2


LATE = "org.apache.spark.SparkException: Python worker failed to connect back."


@pytest.mark.clause("Z6")
def test_a_python_worker_that_came_too_late_is_waited_for_a_moment_and_not_a_minute(stage: Stage) -> None:
    stage.runner._backoff = Backoff(1, 600_000)
    job = StreamedJob("publisher", *[LATE] * 12, RuntimeError(LATE), "KeyError: gone")
    stage.enough = lambda: job.starts == 15
    stage.runner.run_on([job])
    failed = stage.reports("FailureReport")
    assert [report.retry_s for report in failed] == [0.001] * 14
    assert {report.error for report in failed[:-1]} == {
        "the machine was too busy to start Spark's Python worker in time"
    }


@pytest.mark.clause("Z6")
def test_a_first_start_that_came_too_late_is_no_refusal(stage: Stage) -> None:
    job = StreamedJob("publisher", RuntimeError(LATE))
    stage.enough = lambda: job.starts == 2
    stage.runner.run_on([job])
    assert [report.retry_s for report in stage.reports("FailureReport")] == [0.0]

    once = StreamedJob("compacting", RuntimeError(LATE), *[LATE] * 5)
    stage.enough = lambda: False
    stage.runner.run_once([once])
    assert (once.starts, stage.state("compacting")) == (7, ("ended", None))


def test_the_whole_account_of_a_failure_is_in_the_log(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(PipelineJobFailed):
        stage.runner.run_once([StreamedJob("publisher", *["KeyError: gone"] * 3)])
    assert 'File "a.py", line 1' in caplog.text


def test_a_job_that_another_run_has_taken_over_ends(stage: Stage) -> None:
    replaced = "driftq.errors.pipeline.PublisherReplaced: another publisher has taken over"
    fenced = "driftq.errors.projections.ProjectionFenced: run 1 was replaced by run 2"
    publisher, projection = StreamedJob("publisher", replaced), StreamedJob("projection-latest", fenced)
    with pytest.raises(PipelineJobFailed):
        stage.runner.run_on([publisher, projection])
    assert (publisher.starts, projection.starts) == (1, 1)
    assert [report.retry_s for report in stage.reports("FailureReport")] == [None, None]
    assert stage.state("projection-latest") == ("failed", "run 1 was replaced by run 2")


def test_a_read_model_that_was_rebuilt_is_taken_up_at_once(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.runner._backoff = Backoff(600_000, 600_000)
    job = StreamedJob("projection-latest", "driftq.errors.projections.ReadModelSwapped: it was rebuilt")
    stage.enough = lambda: job.starts == 2
    stage.runner.run_on([job])
    assert [report.retry_s for report in stage.reports("FailureReport")] == [0.0]
