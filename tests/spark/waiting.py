"""Waiting for what another process does."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

DEADLINE_S = 60.0
QUERY_S = 300
_POLL_S = 0.05
_TRIES_MAX = 5
_TOO_SLOW = "failed to connect back"


def wait_until(holds: Callable[[], bool], what: str, *, within_s: float = DEADLINE_S) -> None:
    """Until it holds; fails after a deadline that is never reached when all is well."""
    end = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < end, f"waited {within_s} s for {what}"
        time.sleep(_POLL_S)


def run_to_end(start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """A query that ends by itself, started again where Spark did not wait for its own Python process.

    It gives that process 10 seconds to start, which no setting changes and a busy machine may not keep.
    """
    from pyspark.errors import StreamingQueryException

    for _ in range(_TRIES_MAX):
        query = start()
        try:
            assert query.awaitTermination(QUERY_S), f"it has not ended after {QUERY_S} s"
        except StreamingQueryException as failed:
            if _TOO_SLOW not in str(failed):
                raise
        else:
            return query
    raise AssertionError(f"Spark could not start a Python process in {_TRIES_MAX} tries")
