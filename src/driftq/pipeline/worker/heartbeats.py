"""Keeps the leases of claims alive, from a thread that does nothing else.

It has a connection of its own, so neither a handler that computes nor one that holds a transaction is in its
way. It never touches Spark. What no thread can help against is native code that keeps the interpreter's lock
for longer than a lease: such a claim may be lost, and then it cannot be finished.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

from driftq.errors import Unavailable
from driftq.pipeline.worker.context import WorkerContext
from driftq.pipeline.worker.timing import Timing
from driftq.registry import Claim

logger = logging.getLogger("driftq.pipeline.worker")
_Place = tuple[str, int]


class Beating(Protocol):
    """Whoever can extend leases."""

    def heartbeat_all(self, claims: Sequence[Claim]) -> list[Claim]: ...


@dataclass(slots=True)
class _HeldClaim:
    claim: Claim
    until: int
    context: WorkerContext | None = None
    lost: bool = False


class ClaimHeartbeats:
    """The claims that are held now. `open_registry` is called in the thread, at the first beat."""

    def __init__(self, open_registry: Callable[[], Beating], *, every_ms: int, timing: Timing) -> None:
        self._open = open_registry
        self._every_s = every_ms / 1000
        self._timing = timing
        self._registry: Beating | None = None
        self._lock = threading.Lock()
        self._held: dict[_Place, _HeldClaim] = {}
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._run, name="driftq-heartbeats", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()

    def hold(self, claims: Sequence[Claim], *, asked_at: int) -> None:
        """These were granted to us, by a call that was made at that time."""
        with self._lock:
            for claim in claims:
                self._held[_place(claim)] = _HeldClaim(claim, asked_at + claim.handler.lease_ms)

    def drop(self, claim: Claim) -> None:
        with self._lock:
            self._held.pop(_place(claim), None)

    def tell(self, claim: Claim, context: WorkerContext) -> None:
        """Whom to tell when the claim is lost."""
        with self._lock:
            held = self._held[_place(claim)]
            held.context = context
            context.lost = held.lost

    def is_lost(self, claim: Claim) -> bool:
        with self._lock:
            return self._held[_place(claim)].lost

    def may_have_lapsed(self, claim: Claim) -> bool:
        """True if nobody has extended it for a whole lease, as when the database is away."""
        with self._lock:
            return self._held[_place(claim)].until <= self._timing.now()

    def beat(self) -> None:
        """Extend all that is held, once."""
        with self._lock:
            claims = [held.claim for held in self._held.values() if not held.lost]
        if not claims:
            return
        asked_at = self._timing.now()
        if self._registry is None:
            self._registry = self._open()
        lost = {_place(claim) for claim in self._registry.heartbeat_all(claims)}
        with self._lock:
            for claim in claims:
                held = self._held.get(_place(claim))
                if held is None:
                    continue  # Finished meanwhile, which is also why it may look lost.
                if _place(claim) in lost:
                    self._lose(held)
                else:
                    held.until = asked_at + claim.handler.lease_ms

    def _lose(self, held: _HeldClaim) -> None:
        held.lost = True
        if held.context is not None:
            held.context.lost = True
        logger.warning("lost the claim on event %s", held.claim.event.event_id)

    def _run(self) -> None:
        while not self._stopped.wait(self._every_s):
            try:
                self.beat()
            except Unavailable as away:
                logger.warning("could not renew leases: %s", away)


def _place(claim: Claim) -> _Place:
    return claim.event.event_id, claim.token
