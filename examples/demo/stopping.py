"""Ctrl-C is noted when it comes and obeyed where the demo waits, so that no process is left running."""

from __future__ import annotations

import signal
import threading

_came: list[int] = []
_stopped = threading.Event()


class Stopped(Exception):
    """Somebody asked the demo to end."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number


def listen() -> None:
    """From now on SIGINT, SIGTERM and SIGHUP are noted; call it on the main thread."""

    def note(number: int, _: object) -> None:
        _came.append(number)
        _stopped.set()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, note)


def fail_if_stopped() -> None:
    """Raises Stopped once a signal has come."""
    if _stopped.is_set():
        raise Stopped(_came[0])
