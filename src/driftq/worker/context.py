"""What a handler knows beside its message or its arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from driftq.model import Envelope

if TYPE_CHECKING:
    from driftq.sql import Transaction


class Context:
    """One run of a handler for one delivery."""

    def __init__(
        self,
        *,
        group: str,
        partition: int,
        offset: int,
        attempt: int,
        envelope: Envelope | None,
        last_error: str,
        heartbeat: Callable[[], None],
    ) -> None:
        self.group = group
        self.partition = partition
        self.offset = offset
        self.attempt = attempt
        """Which delivery this is, from 1."""
        self.token = 0
        """The fencing token of the effect: hand it to whatever can refuse an older one."""
        self.last_error = last_error
        """Why the attempt before this one failed."""
        self.envelope = envelope or Envelope()
        """What travels with the message; empty when it has none."""
        self.run_id = (envelope.run_id if envelope else None) or ""
        self.step_id = (envelope.step_id if envelope else None) or ""
        self.lost = False
        """The lease is over: another worker may have the message, so stop."""
        self.transaction: Transaction | None = None
        """For an effect declared TRANSACTIONAL: what is done in it is kept together with the mark."""
        self._heartbeat = heartbeat

    def heartbeat(self) -> None:
        """Renew the leases now; the worker does so by itself. Raises when they are lost."""
        self._heartbeat()


class JobContext:
    """One run of a job."""

    def __init__(self, *, job_id: str, attempt: int, token: int, heartbeat: Callable[[], None]) -> None:
        self.job_id = job_id
        self.attempt = attempt
        self.token = token
        self.lost = False
        """Cancelled, out of time, or the lease is over: stop."""
        self._heartbeat = heartbeat

    def heartbeat(self) -> None:
        """Renew the lease now; the worker does so by itself. Raises StaleLease."""
        self._heartbeat()
