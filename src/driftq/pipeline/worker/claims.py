"""The port for claiming events: the registry, or the sequence guard alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from driftq.registry import Claim, Failure, Handler, SequencedEvent

if TYPE_CHECKING:
    from driftq.sql import Transaction


class Claims(Protocol):
    """A part of `driftq.registry.Registry`, with the same meaning."""

    def claim_all(self, handler: Handler, events: Sequence[SequencedEvent]) -> list[Claim]: ...

    def heartbeat(self, claim: Claim) -> None: ...

    def heartbeat_all(self, claims: Sequence[Claim]) -> list[Claim]: ...

    def mark_done(self, claim: Claim, *, transaction: Transaction | None = None) -> None: ...

    def mark_failed(self, claim: Claim, *, error: str, retryable: bool = True) -> Failure: ...

    def release(self, claim: Claim) -> None: ...
