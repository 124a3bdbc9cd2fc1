"""The port: the durable memory of which handler has had which event."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from driftq.registry.claim import Claim, ClaimState, Failure, Resolution, SequencedEvent, StoredClaim
from driftq.registry.handler import Handler

if TYPE_CHECKING:
    from driftq.sql import Transaction


class Registry(Protocol):
    """Claims keyed (handler, event_id), and how far each handler has come with each aggregate.

    Safe to share between threads. Every method raises DatabaseUnavailable while the database is away: then
    nothing is acknowledged, counted or given up by the caller, and the call is made again later.

    A method that takes `transaction` joins it and is kept or dropped with it; otherwise it has its own.
    """

    def claim(self, handler: Handler, event: SequencedEvent) -> Claim:
        """Ask for the right to perform the handler's effect for this event."""

    def claim_all(
        self, handler: Handler, events: Sequence[SequencedEvent], *, transaction: Transaction | None = None
    ) -> list[Claim]:
        """As many claims, each decided for itself, in one go. Answers in the order of the events."""

    def heartbeat(self, claim: Claim) -> None:
        """Extend the lease from now. Raises LeaseLost: then stop the work, it cannot be finished."""

    def heartbeat_all(self, claims: Sequence[Claim]) -> list[Claim]:
        """Extend many; returns those that are lost."""

    def mark_done(
        self, claim: Claim, *, result: str | None = None, transaction: Transaction | None = None
    ) -> None:
        """The effect has happened: finish the claim and advance the aggregate. Raises LeaseLost.

        `result` is kept with the mark, for duplicates.
        """

    def mark_done_all(
        self, claims: Sequence[Claim], *, transaction: Transaction | None = None
    ) -> list[Claim]:
        """Finish many; returns those that are lost. In a caller's transaction the first lost one raises."""

    def apply(self, claim: Claim) -> AbstractContextManager[Transaction]:
        """A transaction for a transactional effect: the handler's SQL and the mark are kept together.

        Raises LeaseLost before the block or at its end, EventSuperseded if a newer event was done since the
        claim and only the newest state counts (the claim is then closed), WrongClaimState if it was applied
        before. The aggregate is locked meanwhile, so nobody can take the event over; on SQLite nobody can
        write at all, heartbeats included.
        """

    def keep_result(self, claim: Claim, result: str, *, transaction: Transaction) -> None:
        """Inside `apply`: what the effect gave, kept together with the mark."""

    def result_of(self, handler: str, event_id: str) -> str | None:
        """What a finished effect gave; None if it gave nothing, is not finished or was forgotten."""

    def mark_failed(self, claim: Claim, *, error: str, retryable: bool = True) -> Failure:
        """The attempt failed: schedule the retry, or after the last one keep a dead letter."""

    def mark_unknown(self, claim: Claim, *, error: str) -> None:
        """Nobody here can tell whether the effect happened: wait for `resolve`."""

    def release(self, claim: Claim) -> None:
        """Give the claim back uncharged: the work was not begun."""

    def find(self, handler: str, event_id: str) -> StoredClaim:
        """What is stored; raises ClaimNotFound."""

    def list_claims(
        self,
        state: ClaimState,
        *,
        handler: str | None = None,
        limit: int = 1000,
        after: tuple[str, str] | None = None,
    ) -> list[StoredClaim]:
        """Claims in this state, by handler and event id, after that pair."""

    def due(self, handler: str, *, limit: int = 1000) -> list[StoredClaim]:
        """Claims that may be granted now though nobody will deliver their events again."""

    def counts(self, handler: str) -> dict[ClaimState, int]:
        """How many claims are unfinished, by state."""

    def report_unknown(self) -> int:
        """Turn abandoned claims of unknown effect into the state UNKNOWN, and say how many."""

    def requeue(self, handler: str, event_id: str, *, by: str) -> StoredClaim:
        """Bring a dead letter back, with all its attempts. Raises ClaimNotFound, WrongClaimState."""

    def resolve(self, handler: str, event_id: str, resolution: Resolution, *, by: str) -> StoredClaim:
        """Say what became of an unknown effect. Raises ClaimNotFound, WrongClaimState."""

    def last_sequence(self, handler: str, *, aggregate_type: str, aggregate_id: str) -> int:
        """The highest sequence that is done or parked; 0 for none."""

    def skip_to(self, handler: str, *, aggregate_type: str, aggregate_id: str, sequence: int) -> None:
        """Take everything up to here as done, for a handler that joins an aggregate late. Never goes back."""

    def forget(self, *, older_than_ms: int, limit: int = 1000) -> int:
        """Delete finished claims of that age, a minute or more; returns how many. They stay stale."""

    def check(self) -> None:
        """Reach the database once."""
