"""What a handler knows beside its message or its arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from driftq.model import Envelope
from driftq.registry.handler import Effect
from driftq.registry.verdict import Reject

if TYPE_CHECKING:
    from driftq.effects.sinks import SinkHandle
    from driftq.sql import Transaction


class Context:
    """One run of a handler for one delivery."""

    def __init__(
        self,
        *,
        group: str,
        partition: int,
        topic: str = "",
        offset: int,
        attempt: int,
        envelope: Envelope | None,
        last_error: str,
        heartbeat: Callable[[], None],
    ) -> None:
        self.group = group
        self.topic = topic
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
        self.handler = ""
        """The handler's name: the group and the topic."""
        self.effect_id = ""
        """What the effect is known by at every attempt: the message's idempotency key, else its place."""
        self.effect = Effect.UNKNOWN
        """As the handler is declared."""
        self._heartbeat = heartbeat
        self._open_sink: Callable[[str], SinkHandle] | None = None

    def heartbeat(self) -> None:
        """Renew the leases now; the worker does so by itself. Raises when they are lost."""
        self._heartbeat()

    def sink(self, name: str) -> SinkHandle:
        """The sink that `Worker(…, sinks={name: …})` has bound, for writes guarded by this message's place.

        A message of an event is guarded by the event's sequence. Raises Reject for an unknown name.
        """
        if self._open_sink is None:
            raise Reject(f"there is no sink {name!r}: the worker was made without sinks")
        return self._open_sink(name)

    def attach(
        self, *, handler: str, effect: Effect, effect_id: str, open_sink: Callable[[str], SinkHandle]
    ) -> None:
        """Called by the worker before the handler runs."""
        self.handler = handler
        self.effect = effect
        self.effect_id = effect_id
        self._open_sink = open_sink


class JobContext:
    """One run of a job."""

    def __init__(
        self,
        *,
        job_id: str,
        attempt: int,
        token: int,
        heartbeat: Callable[[], None],
        queue: str = "",
        task: str = "",
        max_attempts: int | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        self.job_id = job_id
        self.queue = queue
        self.task = task
        self.attempt = attempt
        """Which run this is, from 1."""
        self.max_attempts = max_attempts
        """None from a server that does not tell."""
        self.token = token
        self.metadata: Mapping[str, str] = metadata or {}
        """As it was enqueued with the job."""
        self.lost = False
        """Cancelled, out of time, or the lease is over: stop."""
        self._heartbeat = heartbeat

    def heartbeat(self) -> None:
        """Renew the lease now; the worker does so by itself. Raises StaleLease."""
        self._heartbeat()
