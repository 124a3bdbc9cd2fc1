"""The relay: one process at a time moves committed rows from the user's database to the server.

    advance    in one transaction of the user's database: forget what was sent, place new rows, take the next
    send       to the server, in order, so that a repetition changes nothing

A kill between any two steps leaves rows that are sent again, and the server recognises them. A second relay
waits and takes over when the first one's lease is over.
"""

from __future__ import annotations

import logging
import os
import socket
import threading

from driftq.client import Client
from driftq.client.backoff import RetryBackoff
from driftq.errors import DatabaseUnavailable, DriftQError, OutboxRelayReplaced, WriterFenced
from driftq.outbox.reporting import RelayReports, name_of
from driftq.outbox.rows import OutboxStatus, ParkedRow
from driftq.outbox.sending import RowSender, Sent
from driftq.outbox.store import OutboxStore
from driftq.transport.errors import is_transient

BATCH_ROWS = 500
POLL_S = 0.1
LONGEST_WAIT_S = 5.0

logger = logging.getLogger("driftq.outbox")


class Outbox:
    """The outbox in one database, and the server that its rows go to.

    For one thread at a time, but for `stop`. Another thread or process looks at it through an `Outbox` of its
    own.
    """

    def __init__(
        self,
        database: str,
        client: Client,
        *,
        name: str | None = None,
        owner: str | None = None,
        batch_rows: int = BATCH_ROWS,
        poll_s: float = POLL_S,
        lease_ms: int = 10_000,
    ) -> None:
        """`database` is `sqlite:///PATH` or `postgresql://…`. The caller closes the client.

        The relay reports to the server as `name`, which is made of the database's where it is not given.
        """
        self._store = OutboxStore(database, lease_ms=lease_ms)
        self._client = client
        self._owner = owner or f"{socket.gethostname()}:{os.getpid()}"
        self._batch_rows = batch_rows
        self._poll_s = poll_s
        self._reports = RelayReports(client, name=name or name_of(database), owner=self._owner)
        self._stopping = threading.Event()
        self._sender: RowSender | None = None
        """While this is the one relay."""

    def create(self) -> None:
        """Make the tables where they are missing."""
        self._store.create()

    def status(self) -> OutboxStatus:
        return self._store.status()

    def parked(self, *, limit: int = 100, after: int = 0) -> list[ParkedRow]:
        """Rows that the server refused for good, and those that wait behind them."""
        return self._store.parked(limit=limit, after=after)

    def retry(self, row_id: int | None = None) -> int:
        """Let the relay send a parked row again with those behind it, or all parked rows; how many."""
        return self._store.retry(row_id)

    def stop(self) -> None:
        """Ask `run` to end after the batch under way; safe where a signal is handled."""
        self._stopping.set()

    def close(self) -> None:
        self._store.close()

    def run(self, *, once: bool = False) -> int:
        """Move rows until `stop`, or with `once` until none is left; returns how many were sent.

        Waits through outages of the database and of the server. Raises what waiting cannot change, such as
        OutboxMissing or a key without the role `produce`.
        """
        total = 0
        outcome = Sent()
        backoff = RetryBackoff(longest_s=LONGEST_WAIT_S)
        error: str | None = None
        try:
            while not self._stopping.is_set():
                try:
                    if self._sender is None and not self._take_over():
                        self._stopping.wait(self._poll_s)
                        continue
                    assert self._sender is not None
                    rows = self._store.advance(
                        sent=outcome.sent, refused=outcome.refused, limit=self._batch_rows
                    )
                    total += len(outcome.sent)
                    outcome = Sent()
                    if self._reports.due:
                        self._reports.report_progress(self._store.status(), is_idle=not rows, sent=total)
                    if not rows:
                        if once:
                            return total
                        self._stopping.wait(self._poll_s)
                        continue
                    held = self._store.parked_orders()
                    sending = self._sender.send(rows, held, outcome, now_ms=self._store.now_ms())
                    self._client.thread.run(sending)
                    backoff.succeeded()
                except (OutboxRelayReplaced, WriterFenced) as replaced:
                    logger.warning("%s: %s", self._owner, replaced)
                    self._sender, outcome = None, Sent()
                except (DatabaseUnavailable, DriftQError) as failure:
                    if isinstance(failure, DatabaseUnavailable):
                        self._reports.report_outage(str(failure), sent=total)
                    elif not is_transient(failure):
                        self._record(outcome)
                        raise
                    pause_s = backoff.next_s()
                    logger.warning("%s waits %.1f s: %s", self._owner, pause_s, failure)
                    self._stopping.wait(pause_s)
            return total + self._record(outcome)
        except DriftQError as failure:
            error = f"{type(failure).__name__}: {failure}"
            raise
        finally:
            self._let_go(sent=total, error=error)

    def _take_over(self) -> bool:
        if not self._store.take(self._owner):
            return False
        logger.info(
            "%s relays the outbox at %s, token %d", self._owner, self._store.address, self._store.token
        )
        self._sender = RowSender(self._client.awaited, self._store)
        return True

    def _record(self, outcome: Sent) -> int:
        """Note the last rows before the end; without it they would be sent again, to no effect."""
        if self._sender is None or not (outcome.sent or outcome.refused):
            return 0
        try:
            self._store.advance(sent=outcome.sent, refused=outcome.refused, limit=0)
        except (OutboxRelayReplaced, DatabaseUnavailable) as failure:
            logger.warning("%s could not record what it sent: %s", self._owner, failure)
            return 0
        return len(outcome.sent)

    def _let_go(self, *, sent: int, error: str | None) -> None:
        if self._sender is not None:
            self._sender = None
            try:
                self._store.release()
                status = self._store.status()
            except DatabaseUnavailable as failure:
                logger.warning("%s could not end its lease: %s", self._owner, failure)
                status = None
            self._reports.end(status, sent=sent, error=error)
        self._store.close()
