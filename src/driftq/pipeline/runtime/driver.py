"""The process that holds a Spark session: `python -m driftq.pipeline.runtime.driver FD`.

The first line of its stdin is its assignment; it writes reports to the file descriptor FD. Its stdin stays
open as long as the supervisor lives: when it closes, everything here ends.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import traceback
from types import FrameType
from typing import BinaryIO, NoReturn

import msgspec

from driftq.errors import DriftQError, SparkUnusable
from driftq.pipeline.app.file import AppNotUsable
from driftq.pipeline.runtime.causes import cause_of
from driftq.pipeline.runtime.processes import end_session
from driftq.pipeline.runtime.reports import DriverSpec, RefusalReport, Reporter
from driftq.pipeline.runtime.runner import PipelineJobFailed
from driftq.pipeline.runtime.supervisor import REFUSED
from driftq.pipeline.runtime.work import do_work
from driftq.settings import load_log, wants_traces
from driftq.telemetry.log_lines import log_to
from driftq.telemetry.tracing import start_tracing


class StopSignal:
    """Whether a stop was requested. Work that cannot poll it is interrupted."""

    def __init__(self) -> None:
        self.asked = False
        self.interrupts = False

    def __call__(self) -> bool:
        return self.asked

    def ask(self, _number: int, _frame: FrameType | None) -> None:
        self.asked = True
        if self.interrupts:
            raise KeyboardInterrupt


def main() -> NoReturn:
    """Run the assignment from stdin, and exit with a code that the supervisor understands."""
    stopping = StopSignal()
    signal.signal(signal.SIGTERM, stopping.ask)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the supervisor, which then stops us.
    assignment = msgspec.json.decode(sys.stdin.buffer.readline(), type=DriverSpec)
    hold_on_to(sys.stdin.buffer)
    level, form = load_log()
    log_to(level=level, form=form)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    reporter = Reporter(os.fdopen(int(sys.argv[1]), "wb"), assignment.options)
    end_tracing = start_tracing("driftq-pipeline") if wants_traces() else None
    code = _work(assignment, reporter, stopping)
    if end_tracing is not None:
        end_tracing()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # Threads of Spark and of the user must not delay the exit.


def _work(assignment: DriverSpec, reporter: Reporter, stopping: StopSignal) -> int:
    try:
        do_work(assignment, reporter, stopping)
    except (AppNotUsable, DriftQError, SparkUnusable) as refused:
        reporter.say(RefusalReport(reporter.clean(str(refused))))
        return REFUSED
    except PipelineJobFailed:
        return 1  # It was reported when it happened.
    except KeyboardInterrupt:
        return 0
    except Exception as failure:  # noqa: BLE001 - the end of the process: only the report is left.
        if stopping.asked:
            return 0  # Spark reports the interruption as an error.
        traceback.print_exc()
        reporter.say(RefusalReport(reporter.clean(cause_of(failure).text)))
        return REFUSED
    return 0


def hold_on_to(lifeline: BinaryIO) -> None:
    """End this whole session when the other end of the lifeline closes."""

    def wait() -> None:
        lifeline.read()
        end_session(os.getpid())  # This process is one of them.

    threading.Thread(target=wait, name="lifeline", daemon=True).start()


if __name__ == "__main__":
    main()
