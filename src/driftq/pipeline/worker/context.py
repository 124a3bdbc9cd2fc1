"""The context that a handler on Spark gets with its event."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from driftq.effects.sinks import HandlerSinks, RowKey, SinkHandle, Wait, wait_ms
from driftq.registry import Claim

if TYPE_CHECKING:
    from driftq.sql import Transaction


class WorkerContext:
    """One run of a handler for one event."""

    def __init__(
        self,
        claim: Claim,
        *,
        topic: str,
        partition: int,
        offset: int,
        heartbeat: Callable[[Claim], None],
        sinks: HandlerSinks | None = None,
        wait: Wait = wait_ms,
    ) -> None:
        self.handler = claim.handler.name
        self.effect = claim.handler.effect
        """As the handler is declared."""
        self.effect_id = claim.event.event_id
        """What the effect is known by at every attempt."""
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.attempt = claim.attempt
        """Which try this is, from 1."""
        self.token = claim.token
        """The fencing token of the claim: pass it to systems that can refuse an older one."""
        self.last_error = claim.last_error
        """Why the attempt before this one failed."""
        self.lost = False
        """The lease is lost and another worker has the event: stop, the work cannot be finished."""
        self.transaction: Transaction | None = None
        """For an effect declared TRANSACTIONAL: its changes commit together with the mark."""
        self._claim = claim
        self._heartbeat = heartbeat
        self._sinks = sinks or HandlerSinks({})
        self._wait = wait

    def sink(self, name: str) -> SinkHandle:
        """The sink of this name in `@app.worker(…, sinks=…)`; the event's sequence guards what it writes.

        Raises Reject for an unknown name.
        """
        event = self._claim.event
        assert event.sequence_number is not None, "handlers get events only"
        key = RowKey(event.aggregate_type, event.aggregate_id, event.sequence_number, event.event_id)
        return self._sinks.handle(name, self, key, self._wait)

    def heartbeat(self) -> None:
        """Renew the lease now; the worker also renews it itself. Raises LeaseLost.

        In a transaction no other worker can take the event over, and there is nothing to renew.
        """
        if self.transaction is None:
            self._heartbeat(self._claim)
