"""Waiting for something outside to come true."""

from __future__ import annotations

import time
from collections.abc import Callable

_POLL_S = 0.02


def wait_until(what: str, reached: Callable[[], bool], *, within_s: float = 60.0) -> None:
    """Look until it is so; fails with what it waited for."""
    end = time.monotonic() + within_s
    while not reached():
        assert time.monotonic() < end, f"waited {within_s} s until {what}"
        time.sleep(_POLL_S)
