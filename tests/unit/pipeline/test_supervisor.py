"""The supervisor with drivers that are no Spark: small programs that speak, fail, hang and leave others."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from driftq.model.backoff import Backoff
from driftq.model.options.pipeline import PipelineOptions
from driftq.pipeline.runtime.processes import is_alive, members
from driftq.pipeline.runtime.reports import (
    DriverSpec,
    FailureReport,
    NoticeReport,
    ProgressReport,
    RefusalReport,
    Report,
    StartedReport,
)
from driftq.pipeline.runtime.supervisor import REFUSED, Supervisor, Watch
from driftq.settings import load_settings
from tests.support.waiting import wait_until

SOON = Backoff(10, 20)
PREAMBLE = """
import os, signal, subprocess, sys, time
from driftq.pipeline.runtime.reports import *
from driftq.pipeline.runtime.status import *
import msgspec
assignment = msgspec.json.decode(sys.stdin.buffer.readline(), type=DriverSpec)
reporter = Reporter(os.fdopen(int(sys.argv[1]), "wb"), assignment.options)
say = reporter.say
"""
LEAVES_A_CHILD = """
child = subprocess.Popen(
    [sys.executable, "-c", "import os, signal, time; os.setpgid(0, 0);"
     "signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)"],
    stdout=subprocess.PIPE)
child.stdout.readline()
say(NoticeReport("child", str(child.pid)))
"""

SUPERVISE = """
import sys
from pathlib import Path
from driftq.pipeline.runtime.reports import DriverSpec, NoticeReport
from driftq.pipeline.runtime.supervisor import Supervisor, Watch
from driftq.settings import load_settings
script, folder = sys.argv[1:]
def hear(report):
    if isinstance(report, NoticeReport):
        print(report.text, flush=True)
assignment = DriverSpec(what=("publisher",), options=load_settings(environ={}).pipeline(data=folder))
Supervisor(assignment, hear, log=Path(folder, "log"), watch=Watch(command=(sys.executable, script))).run()
"""


@pytest.fixture
def options(tmp_path: Path) -> PipelineOptions:
    return load_settings(environ={}).pipeline(data=str(tmp_path))


class Stage:
    """A supervisor, the program it supervises, and what it was told."""

    def __init__(
        self,
        folder: Path,
        options: PipelineOptions,
        program: str,
        *,
        once: bool = False,
        backoff: Backoff = SOON,
    ) -> None:
        script = folder / "driver.py"
        script.write_text(PREAMBLE + program)
        self.heard: list[Report] = []
        self.react: Callable[[Report], None] = lambda report: None
        self.supervisor = Supervisor(
            DriverSpec(what=("publisher",), options=options, once=once),
            self._hear,
            log=folder / "logs" / "driver.log",
            watch=Watch(backoff=backoff, grace_s=0.2, tidy_s=0.1, command=(sys.executable, str(script))),
        )

    def _hear(self, report: Report) -> None:
        self.heard.append(report)
        self.react(report)

    def told(self, kind: type[Report]) -> list[Report]:
        return [report for report in self.heard if isinstance(report, kind)]


def test_what_a_driver_says_is_heard_in_order(tmp_path: Path, options: PipelineOptions) -> None:
    stage = Stage(
        tmp_path, options, 'say(StartedReport("a")); say(NoticeReport("a", "half")); say(EndReport("a"))'
    )
    assert stage.supervisor.run() == 0
    assert [type(report).__name__ for report in stage.heard] == ["StartedReport", "NoticeReport", "EndReport"]


def test_a_driver_that_dies_is_started_again(tmp_path: Path, options: PipelineOptions) -> None:
    program = """
marker = os.path.join(assignment.options.data, "died")
say(StartedReport("a"))
if os.path.exists(marker):
    sys.exit(0)
open(marker, "w").close()
os.kill(os.getpid(), signal.SIGKILL)
"""
    stage = Stage(tmp_path, options, program)
    assert stage.supervisor.run() == 0
    assert len(stage.told(StartedReport)) == 2
    [failed] = stage.told(FailureReport)
    assert isinstance(failed, FailureReport)
    assert "SIGKILL" in failed.error
    assert failed.retry_s == 0.01


@pytest.mark.clause("U5")
def test_metrics_of_a_driver_that_died_no_longer_say_that_its_jobs_run(
    tmp_path: Path, options: PipelineOptions
) -> None:
    program = """
from driftq.pipeline.runtime.progress import ProgressTracker
from driftq.pipeline.runtime.status import StatusFolder
told = assignment.options
progress = ProgressTracker(StatusFolder(told.folder), reporter, checkpoint=told.checkpoint)
progress.expect("publisher")
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert Stage(tmp_path, options, program, once=True).supervisor.run() == 1
    text = Path(options.folder, "status", "publisher.prom").read_text()
    assert 'driftq_pipeline_running{job="publisher"} 0.0' in text


def test_pauses_grow_until_a_batch_gets_through(tmp_path: Path, options: PipelineOptions) -> None:
    program = """
counter = os.path.join(assignment.options.data, "starts")
starts = int(open(counter).read()) + 1 if os.path.exists(counter) else 1
open(counter, "w").write(str(starts))
if starts == 4:
    say(ProgressReport(JobStatus(job="a", state=PipelineJobState.RUNNING, last_batch=0)))
sys.exit(0 if starts == 5 else 1)
"""
    stage = Stage(tmp_path, options, program)
    assert stage.supervisor.run() == 0
    assert [report.retry_s for report in stage.heard if isinstance(report, FailureReport)] == [
        0.01,
        0.02,
        0.02,
        0.01,
    ]
    assert stage.told(ProgressReport)


def test_what_cannot_work_is_not_tried_again(tmp_path: Path, options: PipelineOptions) -> None:
    stage = Stage(tmp_path, options, f'say(RefusalReport("there is no Java")); sys.exit({REFUSED})')
    assert stage.supervisor.run() == 1
    assert stage.heard == [RefusalReport("there is no Java")]


def test_a_run_that_is_to_happen_once_is_not_tried_again(tmp_path: Path, options: PipelineOptions) -> None:
    stage = Stage(tmp_path, options, "sys.exit(1)", once=True)
    assert stage.supervisor.run() == 1
    assert not stage.heard


@pytest.mark.parametrize("end", ["sys.exit(0)", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_nothing_of_a_driver_outlives_it(tmp_path: Path, options: PipelineOptions, end: str) -> None:
    stage = Stage(tmp_path, options, LEAVES_A_CHILD + end, once=True)
    stage.supervisor.run()
    [child] = [int(report.text) for report in stage.heard if isinstance(report, NoticeReport)]
    wait_until("the child is gone", lambda: not is_alive(child))


def test_a_driver_that_does_not_stop_is_ended(tmp_path: Path, options: PipelineOptions) -> None:
    deaf = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + LEAVES_A_CHILD + "time.sleep(600)"
    stage = Stage(tmp_path, options, deaf)
    stage.react = lambda report: os.kill(os.getpid(), signal.SIGTERM)
    assert stage.supervisor.run() == 0
    [child] = [int(report.text) for report in stage.heard if isinstance(report, NoticeReport)]
    assert not is_alive(child)


def test_stopping_does_not_wait_for_the_next_start(tmp_path: Path, options: PipelineOptions) -> None:
    stage = Stage(tmp_path, options, "sys.exit(1)", backoff=Backoff(600_000, 600_000))
    stage.react = lambda report: threading.Timer(0.05, os.kill, [os.getpid(), signal.SIGTERM]).start()
    assert stage.supervisor.run() == 0
    assert len(stage.told(FailureReport)) == 1


def test_a_driver_whose_supervisor_dies_ends_with_all_it_started(
    tmp_path: Path, options: PipelineOptions
) -> None:
    """The supervisor is a process of its own here, so that it can be killed."""
    script = tmp_path / "driver.py"
    program = (
        "from driftq.pipeline.runtime.driver import hold_on_to\nhold_on_to(sys.stdin.buffer)\ntime.sleep(600)"
    )
    script.write_text(PREAMBLE + LEAVES_A_CHILD + program)
    supervisor = subprocess.Popen(
        [sys.executable, "-c", SUPERVISE, str(script), str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert supervisor.stdout is not None
    child = int(supervisor.stdout.readline())
    session = os.getsid(child)
    assert child in members(session)
    supervisor.kill()
    supervisor.wait()
    supervisor.stdout.close()
    wait_until("the session is empty", lambda: members(session) == [])


def test_the_session_of_a_dead_process_has_no_members() -> None:
    assert os.getpid() in members(os.getsid(0))
    assert members(2**22 + 1) == []
