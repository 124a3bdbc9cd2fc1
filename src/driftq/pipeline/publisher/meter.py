"""The publisher's metrics: one line in the log at intervals, busy or not."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from driftq.publishing.meter import meter_line

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from driftq.publishing.run import PublisherRun

logger = logging.getLogger("driftq.publisher")

_LAST_LINE_S = 10.0
"""A session that is lost may leave the thread waiting; the process must end all the same."""


class Meter:
    """Observes a run from a thread of its own, which only asks Spark whether the query has ended."""

    def __init__(self, run: PublisherRun, *, interval_s: int) -> None:
        self._run = run
        self._interval_s = interval_s
        self._thread: threading.Thread | None = None

    def follow(self, query: StreamingQuery) -> None:
        """Log until the query ends."""
        self._thread = threading.Thread(
            target=self._follow, args=(query,), name="publisher-meter", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Wait for the last line. Call it when the query has ended."""
        if self._thread is not None:
            self._thread.join(_LAST_LINE_S)

    def _follow(self, query: StreamingQuery) -> None:
        try:
            while not query.awaitTermination(self._interval_s):
                logger.info(meter_line(self._run))
        except Exception as end:  # noqa: BLE001 - the runner reports how the query ended
            logger.debug("the publisher's query ended: %s", end)
        logger.info(meter_line(self._run))
