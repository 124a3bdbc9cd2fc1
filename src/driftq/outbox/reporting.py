"""What a relay reports to the server for its dashboard and metrics: best effort, and never in its way.

A report is handed to the client's loop and not waited for; while one is under way, the next is left out.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import PurePosixPath
from urllib.parse import urlsplit

from driftq.client import Client
from driftq.errors import DriftQError, MethodNotAllowed, PermissionDenied, RouteNotFound
from driftq.model.time import rfc3339
from driftq.model.wire.pipelines import OUTBOX_KIND, PipelineReport, ReportedState
from driftq.outbox.rows import OutboxStatus

EVERY_S = 5.0
_END_S = 2.0
_ERROR_MAX = 2_000

logger = logging.getLogger("driftq.outbox")


class RelayReports:
    """The reports of one relay, under the outbox's name."""

    def __init__(
        self, client: Client, *, name: str, owner: str, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self.name = name
        self._client = client
        self._owner = owner
        self._monotonic = monotonic
        self._started_at = rfc3339(time.time_ns() // 1_000_000)
        self._next_at = 0.0
        self._last = OutboxStatus(0, 0, 0, 0, "", False)
        self._under_way: Future[None] | None = None
        self._failing = False
        self._refused = False
        """The server takes no reports of this relay: its key is a tenant's, or the server is an old one."""

    @property
    def due(self) -> bool:
        return not self._refused and self._monotonic() >= self._next_at

    def report_progress(self, status: OutboxStatus, *, is_idle: bool, sent: int) -> None:
        """Report this, unless the report before is still under way."""
        self._last = status
        self._next_at = self._monotonic() + EVERY_S
        self._start(self._report("waiting" if is_idle else "running", sent=sent))

    def report_outage(self, error: str, *, sent: int) -> None:
        """Report, when it is due, that the relay waits for its database."""
        if self.due:
            self._next_at = self._monotonic() + EVERY_S
            self._start(self._report("target_away", sent=sent, error=error))

    def end(self, status: OutboxStatus | None, *, sent: int, error: str | None) -> None:
        """The last report; it is waited for, but not for long."""
        self._last = status or self._last
        if self._refused:
            return
        if self._under_way is not None:
            self._under_way.cancel()
        report = self._report("ended" if error is None else "failed", sent=sent, error=error)
        try:
            self._client.thread.run(asyncio.wait_for(self._send(report), _END_S))
        except (TimeoutError, DriftQError) as failure:
            logger.info("the last report of %s is lost: %s", self.name, failure)

    def _report(self, state: ReportedState, *, sent: int, error: str | None = None) -> PipelineReport:
        last = self._last
        return PipelineReport(
            kind=OUTBOX_KIND,
            state=state,
            last_batch=last.last_position,
            rows=sent,
            lag=last.waiting,
            dead_letters=last.parked,
            error=None if error is None else error[:_ERROR_MAX],
            driver=self._owner,
            started_at=self._started_at,
        )

    def _start(self, report: PipelineReport) -> None:
        if self._under_way is None or self._under_way.done():
            thread = self._client.thread
            self._under_way = asyncio.run_coroutine_threadsafe(self._send(report), thread.loop)

    async def _send(self, report: PipelineReport) -> None:
        try:
            await self._client.awaited.pipelines.report(self.name, report)
        except (PermissionDenied, RouteNotFound, MethodNotAllowed) as refused:
            logger.info("the server takes no reports of %s: %s", self.name, refused)
            self._refused = True
        except DriftQError as failure:
            if not self._failing:
                logger.info("a report of %s is lost: %s", self.name, failure)
            self._failing = True
        else:
            self._failing = False


def name_of(database: str) -> str:
    """The outbox's name where none is given: that of its database, `outbox-shop` for `sqlite:///shop.db`."""
    stem = PurePosixPath(urlsplit(database).path).stem
    return f"outbox-{stem}" if stem else "outbox"
