"""Handlers and events that the stories are about."""

from driftq.registry import Effect, EventKey, GapPolicy, Handler
from driftq.registry.sql_registry import SqlRegistry

LEASE_MS = 30_000
BILLING = Handler("billing", Effect.IDEMPOTENT, GapPolicy.ORDERED, max_retries=2, lease_ms=LEASE_MS)
SEARCH = Handler("search", Effect.IDEMPOTENT, GapPolicy.FULL_STATE, max_retries=2, lease_ms=LEASE_MS)
MAIL = Handler("mail", Effect.UNKNOWN, GapPolicy.ORDERED, max_retries=2, lease_ms=LEASE_MS)
LEDGER = Handler("ledger", Effect.TRANSACTIONAL, GapPolicy.ORDERED, max_retries=2, lease_ms=LEASE_MS)


def event(sequence: int = 1, *, of: str = "order-1", kind: str = "order") -> EventKey:
    return EventKey(f"{kind}/{of}#{sequence}", kind, of, sequence)


def finish(registry: SqlRegistry, handler: Handler, *sequences: int, of: str = "order-1") -> None:
    for sequence in sequences:
        registry.mark_done(registry.claim(handler, event(sequence, of=of)))


def reached(registry: SqlRegistry, handler: Handler, *, of: str = "order-1", kind: str = "order") -> int:
    return registry.last_sequence(handler.name, aggregate_type=kind, aggregate_id=of)
