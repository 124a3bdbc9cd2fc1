"""The publisher as a plain process: event log → lanes → topics, one batch after the other, without Spark.

It reads the log over HTTP and waits there for the next event, so an event is on its topic a few milliseconds
after its append. The positions of the lanes are stored with the messages; the checkpoint follows each second,
and a start from an older one reads a little twice and sends nothing twice.

A server that is away is waited for, and the run goes on where it was. Any other failure starts a new run,
after a pause. A run that was replaced ends: the newer publisher, here or on Spark, goes on.
"""

from __future__ import annotations

import logging
import time

import msgspec

from driftq.errors import DriftQError, PositionsAhead, PublisherReplaced
from driftq.eventstore.stored import StoredEvent
from driftq.model.backoff import Backoff
from driftq.model.options.pipeline import KAFKA, PipelineOptions
from driftq.model.wire.events import LogEndReply
from driftq.publishing.begin import begin_run
from driftq.publishing.kafka.run import KafkaRun, check_kafka
from driftq.publishing.meter import meter_line
from driftq.publishing.run import PublisherRun
from driftq.transport.errors import is_transient
from driftq.transport.paths import Query
from driftq.transport.server import Server, check_server

logger = logging.getLogger("driftq.publisher")

PAGE_EVENTS = 1000
WAIT_MS = 20_000
CHECKPOINT_S = 1.0
_STARTS_MAX = 3
"""Failures in a row after which a run that is to end gives up."""

_decode_lines = msgspec.json.Decoder(StoredEvent).decode_lines


class PublisherStopped(BaseException):
    """Raised in the waiting thread when a stop is requested: nothing is lost by leaving the wait."""


class PlainPublisher:
    """Run one for an event log: a second, or one on Spark, takes over from the first. For one thread."""

    def __init__(self, options: PipelineOptions, *, backoff: Backoff | None = None) -> None:
        self._options = options
        self._backoff = backoff or Backoff()
        self._server = Server(options.url, credentials=options.credentials, patience_s=0.0)
        self._run: PublisherRun | None = None
        self._position = 0
        self._began = False
        self._stopping = False
        self._waits = False
        self._logged_at = time.monotonic()

    def check(self) -> None:
        """Raise the error that would keep it from starting."""
        check_server(self._options.url, self._options.credentials)
        if self._options.transport == KAFKA:
            check_kafka(self._options)

    def run(self, *, once: bool = False) -> None:
        """Publish until `stop`; with `once`, everything that was appended before the start.

        Raises PublisherReplaced when a newer publisher has taken over, and the error of a first start.
        """
        failures = 0
        try:
            end = self._log_end() if once else None
            while not self._stopping and not self._is_done(end):
                try:
                    self._step(end)
                    failures = 0
                except (PublisherReplaced, PositionsAhead):
                    raise
                except Exception as failure:
                    failures += 1
                    if not self._began or (once and failures >= _STARTS_MAX):
                        raise
                    self._recover(failure, pause_s=self._backoff.limit_ms(failures) / 1000)
            if self._run is not None:
                self._run.store_checkpoint()
        except PublisherStopped:
            if self._run is not None:
                self._run.store_checkpoint()
        finally:
            self._close_run()
            self._server.close()

    def stop(self) -> None:
        """End after the current batch. In a signal handler it also ends a wait."""
        self._stopping = True
        if self._waits:
            raise PublisherStopped

    def _is_done(self, end: int | None) -> bool:
        return end is not None and self._run is not None and self._position >= end

    def _step(self, end: int | None) -> None:
        """Begin, or publish the next events and move the checkpoint when it is due."""
        run = self._run
        if run is None:
            run = self._run = begin_run(self._options, to_driftq=PublisherRun, to_kafka=KafkaRun)
            self._position, self._began = run.after, True
            return
        events = self._read(run, wait_ms=0 if end is not None else WAIT_MS)
        if end is not None:
            events = [event for event in events if event.position <= end]
        if events:
            run.publish_events(events)
            self._position = events[-1].position
        due_s = run.save_due_s
        if due_s is not None and due_s >= CHECKPOINT_S:
            run.store_checkpoint()
        if time.monotonic() - self._logged_at >= self._options.publisher.metrics_interval_seconds:
            self._log(run)

    def _read(self, run: PublisherRun, *, wait_ms: int) -> list[StoredEvent]:
        """The next events. A wait ends in time for the checkpoint and for the log."""
        due_s = run.save_due_s
        if due_s is not None:
            wait_ms = min(wait_ms, max(1, int((CHECKPOINT_S - due_s) * 1000)))
        interval_ms = self._options.publisher.metrics_interval_seconds * 1000
        query: Query = {
            "from": self._position + 1,
            "limit": min(PAGE_EVENTS, self._options.publisher.batch_events),
            "stored": "true",
            "wait_ms": min(wait_ms, interval_ms),
        }
        self._waits = True
        try:
            if self._stopping:
                raise PublisherStopped
            return _decode_lines(self._server.content("/v1/events/log", query))
        finally:
            self._waits = False

    def _recover(self, failure: Exception, *, pause_s: float) -> None:
        """Pause. The run goes on where it was if only the server is away; else the next one begins."""
        logger.warning("publisher: %s; going on in %.1f s", failure, pause_s)
        if not (isinstance(failure, DriftQError) and is_transient(failure)):
            self._close_run()
        self._waits = True
        try:
            if not self._stopping:
                time.sleep(pause_s)
        finally:
            self._waits = False

    def _log_end(self) -> int:
        return self._server.get("/v1/events/log/end", LogEndReply).position

    def _log(self, run: PublisherRun) -> None:
        logger.info(meter_line(run))
        self._logged_at = time.monotonic()

    def _close_run(self) -> None:
        run, self._run = self._run, None
        if run is not None:
            self._log(run)
            run.close()
