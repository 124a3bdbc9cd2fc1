"""What is known of a job: from Spark's progress to its file, its metrics and its lag."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from driftq.pipeline.runtime.causes import Cause, cause_of
from driftq.pipeline.runtime.metrics import as_text, serve_metrics
from driftq.pipeline.runtime.processes import mark_of
from driftq.pipeline.runtime.progress import ProgressTracker, lag_of
from driftq.pipeline.runtime.reports import ProgressReport, Reporter, read_report
from driftq.pipeline.runtime.status import JobStatus, PipelineJobState, StatusFolder
from driftq.settings import load_settings

SECRET = "s3cr%40t"
ENVIRON = {"DRIFTQ_DATABASE_URL": f"postgresql://me:{SECRET}@db.example/events"}


@pytest.fixture
def folder(tmp_path: Path) -> StatusFolder:
    return StatusFolder(str(tmp_path))


@pytest.fixture
def progress(folder: StatusFolder) -> ProgressTracker:
    return listening(folder)


def listening(folder: StatusFolder) -> ProgressTracker:
    options = load_settings(environ=ENVIRON).pipeline(data=str(folder.path.parent))
    made = ProgressTracker(folder, Reporter(io.BytesIO(), options), checkpoint=options.checkpoint)
    made.expect("publisher")
    made.began("publisher", "query-1")
    return made


def batch(number: int, rows: int, **more: Any) -> dict[str, Any]:
    base = {"name": "publisher", "batchId": number, "numInputRows": rows, "durationMs": {"addBatch": 5}}
    return base | {"processedRowsPerSecond": 12.34, "sources": []} | more


def test_rows_add_up_and_a_progress_that_comes_twice_counts_once(
    folder: StatusFolder, progress: ProgressTracker
) -> None:
    for one in (batch(0, 10), batch(1, 5), batch(1, 5)):
        progress.heard(one)
    known = folder.read("publisher")
    assert known is not None
    assert (known.last_batch, known.batch_rows, known.rows, known.rows_per_second) == (1, 5, 15, 12.3)
    assert known.checkpoint is not None
    assert known.checkpoint.endswith("pipeline/checkpoints/publisher")
    assert progress.batches("publisher") == 2


def test_all_progress_told_again_at_the_end_counts_only_what_was_not_heard(
    folder: StatusFolder, progress: ProgressTracker
) -> None:
    for number in (0, 1, 0, 1, 2):
        progress.heard(batch(number, 10))
    told = folder.read("publisher")
    assert told is not None
    assert (told.rows, told.last_batch, progress.batches("publisher")) == (30, 2, 3)


def test_messages_that_a_source_leaves_out_are_counted_as_read(
    folder: StatusFolder, progress: ProgressTracker
) -> None:
    progress.heard(batch(0, 10, sources=[{"latestOffset": {"orders": {"0": 60}, "~behind": 7, "~read": 40}}]))
    known = folder.all()[0]
    assert (known.batch_rows, known.rows, known.rows_per_second, known.lag) == (40, 40, 49.4, 7)


def test_messages_that_a_job_has_from_elsewhere_are_counted_with_their_batch(
    folder: StatusFolder, progress: ProgressTracker
) -> None:
    """The publisher's driver leaves the rows of a small batch unread."""
    sources = [{"latestOffset": {"position": 8, "~behind": 0, "~read": 7}}]
    progress.heard(batch(0, 0, sources=sources, durationMs={"addBatch": 20}))
    known = folder.all()[0]
    assert (known.batch_rows, known.rows, known.rows_per_second) == (7, 7, 350.0)
    progress.heard(batch(1, 0, sources=sources, durationMs={"latestOffset": 20}))
    assert folder.all()[0].rows == 7


def test_a_batch_that_is_only_begun_is_not_the_last_one(
    folder: StatusFolder, progress: ProgressTracker
) -> None:
    progress.heard(batch(0, 0, durationMs={"latestOffset": 1}))
    assert folder.all()[0].last_batch is None
    progress.heard(batch(0, 10))
    progress.heard(batch(1, 0, durationMs={"latestOffset": 1}))
    assert (folder.all()[0].last_batch, folder.all()[0].rows) == (0, 10)


def test_the_next_run_goes_on_counting_and_a_new_checkpoint_has_batches_of_its_own(
    folder: StatusFolder, progress: ProgressTracker
) -> None:
    progress.heard(batch(0, 10))
    second = listening(folder)
    second.heard(batch(1, 5))
    assert folder.all()[0].rows == 15
    second.began("publisher", "query-2")
    second.heard(batch(0, 3))
    assert (folder.all()[0].last_batch, folder.all()[0].rows) == (0, 18)


def test_a_failure_and_a_restart_are_seen(folder: StatusFolder, progress: ProgressTracker) -> None:
    progress.failed("publisher", "the server is away", restarting=True)
    assert (folder.all()[0].state, folder.all()[0].error) == (PipelineJobState.WAITING, "the server is away")
    progress.expect("publisher")
    assert (folder.all()[0].state, folder.all()[0].error, folder.all()[0].restarts) == ("running", None, 1)


def test_a_driver_that_died_is_noticed(folder: StatusFolder) -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    folder.write(JobStatus(job="a", state=PipelineJobState.RUNNING, driver=child))
    folder.write(JobStatus(job="b", state=PipelineJobState.RUNNING, driver=os.getpid()))
    folder.write(JobStatus(job="c", state=PipelineJobState.ENDED, driver=child))
    assert [status.state for status in folder.all()] == ["gone", "running", "ended"]


@pytest.mark.clause("U5")
def test_a_dead_drivers_last_numbers_are_not_told_as_if_they_were_true(folder: StatusFolder) -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    last = "2026-01-05T10:00:00.123456Z"
    numbers: dict[str, Any] = {"lag": 0, "rows": 12, "rows_per_second": 40.0, "updated_at": last}
    folder.write(JobStatus(job="a", state=PipelineJobState.RUNNING, driver=child, **numbers))
    folder.write(JobStatus(job="b", state=PipelineJobState.FAILED, driver=child, error="no table", **numbers))
    folder.write(JobStatus(job="c", state=PipelineJobState.ENDED, driver=child, **numbers))
    folder.write(JobStatus(job="d", state=PipelineJobState.RUNNING, driver=os.getpid(), **numbers))
    gone, failed, ended, running = folder.all()
    assert (gone.lag, gone.rows, gone.rows_per_second, gone.not_running_since) == (None, 12, 0.0, last)
    assert gone.notes() == [
        f"not running: its driver (process {child}) died; last heard of at 2026-01-05T10:00:00Z"
    ]
    assert failed.notes() == ["not running since 2026-01-05T10:00:00Z", "no table"]
    assert (failed.lag, ended.lag, ended.not_running_since) == (None, 0, last)
    assert (running.lag, running.rows_per_second, running.notes()) == (0, 40.0, [])


def test_another_process_with_the_drivers_number_is_not_the_driver(folder: StatusFolder) -> None:
    mark = mark_of(os.getpid())
    assert mark is not None
    folder.write(JobStatus(job="a", state=PipelineJobState.RUNNING, driver=os.getpid(), driver_mark=mark - 1))
    folder.write(JobStatus(job="b", state=PipelineJobState.RUNNING, driver=os.getpid(), driver_mark=mark))
    assert [status.state for status in folder.all()] == ["gone", "running"]


def test_other_files_and_an_empty_folder_do_no_harm(folder: StatusFolder) -> None:
    assert folder.all() == []
    folder.write(JobStatus(job="a", state=PipelineJobState.ENDED))
    (folder.path / "b.json").write_text("{")
    assert [status.job for status in folder.all()] == ["a"]
    assert sorted(file.name for file in folder.path.iterdir()) == ["a.json", "b.json"]


def test_metrics_are_a_text_file_and_a_page(folder: StatusFolder, progress: ProgressTracker) -> None:
    progress.heard(batch(4, 10))
    assert 'driftq_pipeline_last_batch{job="publisher"} 4.0' in (folder.path / "publisher.prom").read_text()
    port, end = serve_metrics(folder, 0)
    try:
        with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            page = answer.read().decode()
    finally:
        end()
    assert 'driftq_pipeline_rows_total{job="publisher"} 10.0' in page
    assert 'driftq_pipeline_running{job="publisher"} 1.0' in page
    assert "driftq_pipeline_lag{" not in page  # Nobody could say.


@pytest.mark.parametrize(
    ("sources", "lag"),
    [
        ([], None),
        ([{"latestOffset": {"orders": {"0": 3}, "~behind": 5}}], 5),
        ([{"latestOffset": {"~behind": 5}}, {"latestOffset": {"~behind": 2}}], 7),
        ([{"latestOffset": {"~behind": 5}}, {"latestOffset": 9}, {}], 5),
        ([{"latestOffset": {"orders": {"0": 3}}}], None),
    ],
)
def test_lag_is_what_our_sources_say(sources: list[Any], lag: int | None) -> None:
    assert lag_of({"sources": sources}) == lag


def test_the_cause_is_the_last_line_of_the_innermost_traceback() -> None:
    text = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted SQLSTATE: XXKST
Traceback (most recent call last):
  File "a.py", line 3, in f
    g()
ValueError: first

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "b.py", line 4, in h
    raise driftq.errors.Unavailable
driftq.errors.events.EventStoreUnusable: the database is away
\tat org.apache.spark.Something(Some.scala:1)
"""
    assert cause_of(RuntimeError(text)) == Cause("EventStoreUnusable", "the database is away")
    theirs = text.replace("driftq.errors.events.EventStoreUnusable", "KeyError")
    assert cause_of(RuntimeError(theirs)) == Cause("KeyError", "KeyError: the database is away")
    short = RuntimeError("[STREAM_FAILED] Query [a] terminated with exception: no space\nmore")
    assert cause_of(short).text == "no space"
    assert cause_of(KeyError()) == Cause("KeyError", "KeyError")


@pytest.mark.clause("Z1")
def test_workers_without_driftq_are_told_in_a_sentence_and_not_as_a_pickle() -> None:
    text = """[PYTHON_DATA_SOURCE_ERROR] Failed to create Python data source:
Traceback (most recent call last):
  File "pyspark/serializers.py", line 3, in loads
    return cloudpickle.loads(obj, encoding=encoding)
ModuleNotFoundError: No module named 'driftq'
"""
    said = cause_of(RuntimeError(text)).text
    assert said.startswith("Spark's Python workers cannot import driftq: install driftq where")
    assert "PYSPARK_PYTHON" in said


def test_no_password_is_told() -> None:
    options = load_settings(environ=ENVIRON).pipeline(data="/d")
    reporter = Reporter(io.BytesIO(), options)
    assert reporter.clean(f"cannot reach me:{SECRET}@db or s3cr@t") == "cannot reach me:***@db or ***"


def test_a_line_that_was_cut_off_is_no_report() -> None:
    pipe = io.BytesIO()
    status = JobStatus(job="a", state=PipelineJobState.RUNNING)
    Reporter(pipe, load_settings(environ={}).pipeline(data="/d")).say(ProgressReport(status))
    assert read_report(pipe.getvalue()) == ProgressReport(status)
    assert read_report(pipe.getvalue()[:-5]) is None


@pytest.mark.clause("O1", "V3")
def test_dead_letters_and_outages_add_up_over_drivers(folder: StatusFolder) -> None:
    for dead, outages in ((2, 1), (3, 0)):
        driver = listening(folder)
        driver.began("publisher", f"query-{dead}", {"dead": dead, "outages": outages})
        driver.heard(batch(0, 10))
        driver.heard(batch(1, 10))
    known = folder.read("publisher")
    assert known is not None
    assert (known.dead_letters, known.outages) == (5, 1)
    text = as_text([known]).decode()
    assert 'driftq_pipeline_dead_letters_total{job="publisher"} 5.0' in text
    assert 'driftq_pipeline_outages_total{job="publisher"} 1.0' in text
