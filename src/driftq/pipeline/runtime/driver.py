"""The process that holds a Spark session: `python -m driftq.pipeline.runtime.driver FD`.

It is told what to do by the first line of its stdin and says how it goes on the file that FD names. Its stdin
stays open as long as the supervisor lives: when it ends, so does everything here.
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
from driftq.pipeline.runtime.runner import JobFailed
from driftq.pipeline.runtime.supervisor import REFUSED
from driftq.pipeline.runtime.work import do_work


class StopSignal:
    """Whether the end was asked for. Work that cannot look at it is interrupted."""

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
    """Do what stdin says, and end with an exit code that the supervisor understands."""
    stopping = StopSignal()
    signal.signal(signal.SIGTERM, stopping.ask)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the supervisor, which then asks us.
    assignment = msgspec.json.decode(sys.stdin.buffer.readline(), type=DriverSpec)
    hold_on_to(sys.stdin.buffer)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    reporter = Reporter(os.fdopen(int(sys.argv[1]), "wb"), assignment.options)
    code = _work(assignment, reporter, stopping)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # Threads of Spark's and of a user's must not hold us back.


def _work(assignment: DriverSpec, reporter: Reporter, stopping: StopSignal) -> int:
    try:
        do_work(assignment, reporter, stopping)
    except (AppNotUsable, DriftQError, SparkUnusable) as refused:
        reporter.say(RefusalReport(reporter.clean(str(refused))))
        return REFUSED
    except JobFailed:
        return 1  # It was told when it happened.
    except KeyboardInterrupt:
        return 0
    except Exception as failure:  # noqa: BLE001 - the end of the process: all that is left is to say why.
        if stopping.asked:
            return 0  # Spark complains about what we interrupted.
        traceback.print_exc()
        reporter.say(RefusalReport(reporter.clean(cause_of(failure).text)))
        return REFUSED
    return 0


def hold_on_to(lifeline: BinaryIO) -> None:
    """End this whole session when the other end of the lifeline is gone."""

    def wait() -> None:
        lifeline.read()
        end_session(os.getpid())  # This process is one of them.

    threading.Thread(target=wait, name="lifeline", daemon=True).start()


if __name__ == "__main__":
    main()
