"""The port for claiming events: the registry, or the sequence guard alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from driftq.registry import Claim, Failure, Handler, SequencedEvent
from driftq.registry.sql_registry import Beside


class Claims(Protocol):
    """A part of `driftq.registry.Registry`, with the same meaning."""

    @property
    def batch_max(self) -> int: ...

    def claim_all(self, handler: Handler, events: Sequence[SequencedEvent]) -> list[Claim]: ...

    def heartbeat(self, claim: Claim) -> None: ...

    def heartbeat_all(self, claims: Sequence[Claim]) -> list[Claim]: ...

    def mark_done_all(self, claims: Sequence[Claim], *, beside: Beside | None = None) -> list[Claim]: ...

    def mark_failed(self, claim: Claim, *, error: str, retryable: bool = True) -> Failure: ...

    def release_all(self, claims: Sequence[Claim]) -> list[Claim]: ...
