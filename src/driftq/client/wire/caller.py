"""Calls that run on the thread of their caller: no event loop, no second thread.

A coroutine that does nothing but plain calls never has to wait for a loop while `stepped` runs it: `Calls`
sees that it is stepped and sends its requests over blocking sockets. So there is one implementation of every
call, and a caller without a loop pays for no switch between threads.
"""

from __future__ import annotations

import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

_T = TypeVar("_T")


class _Caller(threading.local):
    stepping = False


_caller = _Caller()


def is_stepping() -> bool:
    """Whether the running coroutine is stepped by its caller, so that it may block and must not suspend."""
    return _caller.stepping


def stepped(work: Coroutine[Any, Any, _T]) -> _T:
    """The result of a coroutine, run on this thread; RuntimeError if it makes other than plain calls."""
    outer, _caller.stepping = _caller.stepping, True
    try:
        work.send(None)
    except StopIteration as done:
        result: _T = done.value
        return result
    finally:
        _caller.stepping = outer
    work.close()
    raise RuntimeError(f"{work!r} waits for an event loop: it is no plain call")
