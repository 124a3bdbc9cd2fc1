"""The processed-event registry: which handler has had which event, and who is at it now.

    registry = SqlRegistry(open_database(url), owner="worker-1")     # driftq.registry.sql_registry
    claim = registry.claim(Handler("billing", Effect.IDEMPOTENT), event)
    match claim.outcome:
        case ClaimOutcome.CLAIMED: …                                 # the effect, then mark_done
        case ClaimOutcome.DUPLICATE_DONE | ClaimOutcome.STALE: …     # acknowledge
        case ClaimOutcome.IN_PROGRESS: …                             # not now, and not counted

This module needs no database driver; `driftq.registry.sql_registry` does.
"""

from driftq.model.backoff import Backoff
from driftq.registry.claim import (
    Claim,
    ClaimOutcome,
    ClaimState,
    EventKey,
    Failure,
    Resolution,
    SequencedEvent,
    StoredClaim,
    Wait,
)
from driftq.registry.handler import Effect, GapPolicy, Handler

__all__ = [
    "Backoff",
    "Claim",
    "ClaimOutcome",
    "ClaimState",
    "Effect",
    "EventKey",
    "Failure",
    "GapPolicy",
    "Handler",
    "Resolution",
    "SequencedEvent",
    "StoredClaim",
    "Wait",
]
