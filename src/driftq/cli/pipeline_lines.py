"""How a running pipeline is shown: a live line per job on a terminal, log lines at an interval elsewhere."""

from __future__ import annotations

import logging
import threading
from types import TracebackType
from typing import Any, Protocol, Self

from driftq.cli.screen import on_terminal, say_error
from driftq.pipeline.runtime.reports import (
    DRIVER,
    EndReport,
    FailureReport,
    NoticeReport,
    ProgressReport,
    RefusalReport,
    Report,
    StartedReport,
)
from driftq.pipeline.runtime.status import JobStatus, PipelineJobState

_LOG = logging.getLogger("driftq.pipeline")
_BUSY = (PipelineJobState.RUNNING, PipelineJobState.WAITING)


class JobLines(Protocol):
    """Where the reports of a run go."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def hear(self, report: Report) -> None: ...


def lines_for(interval_s: int) -> JobLines:
    """Live lines on a terminal, else log lines at this interval."""
    return LiveLines() if on_terminal() else LogLines(interval_s)


def sentence(status: JobStatus) -> str:
    """One job in one line."""
    batch = "no batch yet" if status.last_batch is None else f"batch {status.last_batch}"
    lag = "" if status.lag is None else f", lag {status.lag:,}"
    rest = f", {status.error}" if status.error else ", a target is away" if status.is_away else ""
    return f"{batch}, {status.rows_per_second:,.0f} rows/s{lag}, {status.rows:,} rows in all{rest}"


def _failure(report: FailureReport) -> str:
    retry = "" if report.retry_s is None else f"; restarting in {report.retry_s:g} s"
    return f"{report.job}: {report.error}{retry}"


class LogLines:
    """The progress of each running job, at an interval and at its end; failures at once."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._jobs: dict[str, JobStatus] = {}
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._clock = threading.Thread(target=self._tick, name="lines", daemon=True)

    def __enter__(self) -> Self:
        self._clock.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._clock.join()

    def hear(self, report: Report) -> None:
        match report:
            case StartedReport(job):
                _LOG.info("%s: started", job)
            case ProgressReport(status):
                with self._lock:
                    self._jobs[status.job] = status
            case NoticeReport(job, text):
                _LOG.info("%s: %s", job, text)
            case FailureReport():
                _LOG.warning("%s", _failure(report))
                if report.job == DRIVER:
                    with self._lock:
                        self._jobs.clear()  # Their last reports are out of date.
            case EndReport(job):
                with self._lock:
                    last = self._jobs.get(job)
                _LOG.info("%s: ended%s", job, "" if last is None else f" after {sentence(last)}")
            case RefusalReport(problem):
                say_error(problem)

    def _tick(self) -> None:
        while not self._over.wait(self._interval_s):
            with self._lock:
                shown = [status for status in self._jobs.values() if status.state in _BUSY]
            for status in shown:
                _LOG.info("%s: %s", status.job, sentence(status))


class LiveLines:
    """One live line for each job."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._jobs: dict[str, JobStatus] = {}
        self._console = Console(stderr=True, highlight=False)
        self._live = Live(console=self._console, refresh_per_second=4, get_renderable=self._table)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def hear(self, report: Report) -> None:
        match report:
            case ProgressReport(status):
                self._jobs[status.job] = status
            case NoticeReport(job, text):
                self._console.print(f"{job}: {text}", markup=False)
            case FailureReport():
                self._console.print(_failure(report), style="red", markup=False)
                if report.job == DRIVER:
                    self._jobs.clear()  # Their last reports are out of date.
            case RefusalReport(problem):
                self._console.print(f"error: {problem}", style="red", markup=False, soft_wrap=True)
            case StartedReport() | EndReport():
                pass  # The line says so.

    def _table(self) -> Any:
        from rich.spinner import Spinner
        from rich.table import Table
        from rich.text import Text

        if not self._jobs:
            return Spinner("dots", "starting Spark")
        table = Table.grid(padding=(0, 2))
        for status in self._jobs.values():
            failed = status.state in (PipelineJobState.FAILED, PipelineJobState.WAITING)
            look = "red" if failed else "green" if status.state is PipelineJobState.RUNNING else "dim"
            table.add_row(
                Text(status.job, style="bold"), Text(status.state, style=look), Text(sentence(status))
            )
        return table
