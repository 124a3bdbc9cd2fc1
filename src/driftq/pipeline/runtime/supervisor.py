"""Keeps a driver running: starts it in a session of its own, reads its reports, restarts it or ends it.

The driver restarts queries that fail. The supervisor is for the driver itself: a JVM that runs out of memory,
a process that is killed. Every job may be killed at any point, so that a stop always ends with SIGKILL for
the processes left after a request, and never waits longer than a few seconds.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import msgspec

from driftq.model.backoff import Backoff
from driftq.pipeline.runtime.metrics import as_text
from driftq.pipeline.runtime.processes import end_session, wait_for_session
from driftq.pipeline.runtime.reports import (
    DRIVER,
    DriverSpec,
    FailureReport,
    ProgressReport,
    Report,
    read_report,
)
from driftq.pipeline.runtime.status import PipelineJobState, StatusFolder

GRACE_S = 8.0
"""How long a driver may take to stop when it is asked to."""
_DRIVER = (sys.executable, "-m", "driftq.pipeline.runtime.driver")
_POLL_S = 0.05
REFUSED = 3
"""The driver's exit code for an error that a restart would not fix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """How a supervisor watches."""

    backoff: Backoff = field(default_factory=Backoff)
    grace_s: float = GRACE_S
    tidy_s: float = 3.0
    """How long a JVM whose driver has ended may take to remove its own temporary files."""
    command: Sequence[str] = _DRIVER


class Supervisor:
    """One run of the pipeline, from its start until it is done, refused or stopped."""

    def __init__(
        self,
        assignment: DriverSpec,
        on_report: Callable[[Report], None],
        *,
        log: Path,
        watch: Watch | None = None,
    ) -> None:
        self._assignment = assignment
        self._on_report = on_report
        self._log = log
        self._watch = watch or Watch()
        self._driver: subprocess.Popen[bytes] | None = None
        self._stopping = False

    def run(self) -> int:
        """Until the end; the exit code. Call it on the main thread: SIGTERM and Ctrl-C stop it."""
        failures = 0
        with self._signals():
            while True:
                code, worked = self._run_driver()
                if self._stopping or code == 0:
                    return 0
                if code == REFUSED or self._assignment.once:
                    return 1
                failures = 1 if worked else failures + 1
                wait_s = self._watch.backoff.limit_ms(failures) / 1000
                self._assignment = msgspec.structs.replace(self._assignment, restarting=True)
                self._on_report(FailureReport(DRIVER, f"the driver ended with {_plural_text(code)}", wait_s))
                if self._stopped_within(wait_s):
                    return 0

    def stop(self) -> None:
        """Request a stop, then kill what is left. Safe in a signal handler."""
        if self._stopping:
            return
        self._stopping = True
        driver = self._driver
        if driver is not None:
            _send(driver, signal.SIGTERM)
            timer = threading.Timer(self._watch.grace_s, end_session, [driver.pid])
            timer.daemon = True
            timer.start()

    def _run_driver(self) -> tuple[int, bool]:
        """The exit code of one driver, and whether it finished a batch."""
        worked = False
        with self._started() as reports:
            for line in reports:  # Ends with the driver: no other process has the other end of this pipe.
                report = read_report(line)
                if report is None:
                    continue
                worked = worked or isinstance(report, ProgressReport)
                self._on_report(report)
        driver = self._driver
        assert driver is not None
        wait_for_session(driver.pid, self._watch.tidy_s)
        end_session(driver.pid)
        code = driver.wait()
        self._driver = None
        self._correct_metrics(driver.pid)
        return code, worked

    def _correct_metrics(self, driver: int) -> None:
        """A driver that died left metrics files that say its jobs run: correct them for collectors."""
        folder = StatusFolder(self._assignment.options.folder)
        for status in folder.all():
            if status.driver == driver and status.state is PipelineJobState.GONE:
                folder.write_text(f"{status.job}.prom", as_text([status]))

    @contextmanager
    def _started(self) -> Iterator[IO[bytes]]:
        reports, says = os.pipe()
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with open(reports, "rb") as reading, self._log.open("ab") as log:
            try:
                driver = subprocess.Popen(  # noqa: S603 - the command of the job that this process was given
                    [*self._watch.command, str(says)],
                    stdin=subprocess.PIPE,
                    stderr=log,  # Spark's own output; a user's file prints to stdout.
                    pass_fds=[says],
                    start_new_session=True,
                )
            finally:
                os.close(says)
            self._driver = driver
            if self._stopping:
                end_session(driver.pid)  # The signal came while it started.
            assert driver.stdin is not None
            try:
                driver.stdin.write(msgspec.json.encode(self._assignment) + b"\n")
                driver.stdin.flush()
            except BrokenPipeError:
                pass  # It is dead already: its exit code says so.
            try:
                yield reading
            finally:
                try:
                    driver.stdin.close()  # The lifeline: the process at the other end now ends itself.
                except BrokenPipeError:
                    pass

    def _stopped_within(self, seconds: float) -> bool:
        end = time.monotonic() + seconds
        while not self._stopping and time.monotonic() < end:
            time.sleep(_POLL_S)
        return self._stopping

    @contextmanager
    def _signals(self) -> Iterator[None]:
        numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        before = {number: signal.signal(number, lambda *_: self.stop()) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _send(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    try:
        process.send_signal(number)
    except ProcessLookupError:
        pass


def _plural_text(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"
