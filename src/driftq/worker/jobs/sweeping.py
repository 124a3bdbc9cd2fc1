"""A registry of processed jobs in the user's own database, kept clean by a worker that uses it."""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from driftq.errors import DriftQError

logger = logging.getLogger("driftq.worker")

INTERVAL_S = 3_600.0
_STEP_ROWS = 1_000


class ExpiringTrace(Protocol):
    """A record whose entries have a time to live, such as `driftq.registry.processed_jobs.ProcessedJobs`."""

    def forget_expired(self, *, limit: int = _STEP_ROWS) -> int:
        """Delete what is over; returns how many."""


async def keep_clean(processed: ExpiringTrace, *, interval_s: float = INTERVAL_S) -> None:
    """Remove what is over, now and then again, until cancelled; a failed round is logged."""
    while True:
        try:
            while await asyncio.to_thread(processed.forget_expired, limit=_STEP_ROWS) >= _STEP_ROWS:
                pass
        except DriftQError as failure:
            logger.warning("processed jobs could not be swept: %s", failure)
        await asyncio.sleep(interval_s)
