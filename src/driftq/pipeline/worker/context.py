"""What a handler on Spark knows beside its event."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from driftq.registry import Claim

if TYPE_CHECKING:
    from driftq.sql import Transaction


class WorkerContext:
    """One run of a handler for one event."""

    def __init__(
        self, claim: Claim, *, topic: str, partition: int, offset: int, heartbeat: Callable[[Claim], None]
    ) -> None:
        self.handler = claim.handler.name
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.attempt = claim.attempt
        """Which try this is, from 1."""
        self.token = claim.token
        """The fencing token of the claim: hand it to whatever can refuse an older one."""
        self.last_error = claim.last_error
        """Why the attempt before this one failed."""
        self.lost = False
        """The lease is over and somebody else has the event: stop, the work cannot be finished."""
        self.transaction: Transaction | None = None
        """For an effect declared TRANSACTIONAL: what is done in it is kept together with the mark."""
        self._claim = claim
        self._heartbeat = heartbeat

    def heartbeat(self) -> None:
        """Renew the lease now; the worker does so by itself. Raises LeaseLost.

        In a transaction nobody can take the event over, and there is nothing to renew.
        """
        if self.transaction is None:
            self._heartbeat(self._claim)
