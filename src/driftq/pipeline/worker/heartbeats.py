"""Renews the leases of claims, in a thread that does nothing else.

It has a connection of its own, so neither a handler that computes nor one that holds a transaction blocks it.
It never touches Spark. No thread can help against native code that holds the interpreter lock for longer than
a lease: such a claim may be lost, and then it cannot be finished.
"""

from __future__ import annotations

import enum
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
_TokenKey = tuple[str, int]


class HeldLease(enum.Enum):
    """What is known about the lease of a claim that we hold."""

    CURRENT = enum.auto()
    LAPSED = enum.auto()
    """It was not extended for a whole lease, as when the database is unavailable: it may be lost."""
    LOST = enum.auto()


class Beating(Protocol):
    """Extends leases."""

    def heartbeat_all(self, claims: Sequence[Claim]) -> list[Claim]: ...


@dataclass(slots=True)
class _BeatingClaim:
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
        self._claims: dict[_TokenKey, _BeatingClaim] = {}
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

    def hold(self, claims: Sequence[Claim], *, claimed_at: int) -> None:
        """Add claims that were granted to us, by a call that was made at that time."""
        with self._lock:
            for claim in claims:
                self._claims[_token_key(claim)] = _BeatingClaim(claim, claimed_at + claim.handler.lease_ms)

    def drop(self, claims: Sequence[Claim]) -> None:
        """These are over."""
        with self._lock:
            for claim in claims:
                self._claims.pop(_token_key(claim), None)

    def begin(self, claim: Claim, context: WorkerContext) -> HeldLease:
        """A handler is about to run in this context, which is marked as lost when the claim is."""
        with self._lock:
            beating = self._claims[_token_key(claim)]
            beating.context = context
            context.lost = beating.lost
        if beating.lost:
            return HeldLease.LOST
        return HeldLease.CURRENT if beating.until > self._timing.now() else HeldLease.LAPSED

    def beat(self) -> None:
        """Extend all held claims, once."""
        with self._lock:
            claims = [beating.claim for beating in self._claims.values() if not beating.lost]
        if not claims:
            return
        claimed_at = self._timing.now()
        if self._registry is None:
            self._registry = self._open()
        lost = {_token_key(claim) for claim in self._registry.heartbeat_all(claims)}
        with self._lock:
            for claim in claims:
                beating = self._claims.get(_token_key(claim))
                if beating is None:
                    continue  # Finished meanwhile, which is also why it may look lost.
                if _token_key(claim) in lost:
                    self._mark_lost(beating)
                else:
                    beating.until = claimed_at + claim.handler.lease_ms

    def _mark_lost(self, beating: _BeatingClaim) -> None:
        beating.lost = True
        if beating.context is not None:
            beating.context.lost = True
        logger.warning("lost the claim on event %s", beating.claim.event.event_id)

    def _run(self) -> None:
        while not self._stopped.wait(self._every_s):
            try:
                self.beat()
            except Unavailable as away:
                logger.warning("could not renew leases: %s", away)


def _token_key(claim: Claim) -> _TokenKey:
    return claim.event.event_id, claim.token
