"""Waiting for what another process does."""

from __future__ import annotations

import time
from collections.abc import Callable

DEADLINE_S = 60.0
_POLL_S = 0.05


def wait_until(holds: Callable[[], bool], what: str) -> None:
    """Until it holds; fails after a deadline that is never reached when all is well."""
    end = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < end, f"waited {DEADLINE_S} s for {what}"
        time.sleep(_POLL_S)
