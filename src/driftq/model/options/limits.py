"""The numbers that the machine decides by."""

from dataclasses import dataclass

LEASE_MS_MAX = 43_200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much may wait, how long a delivery is leased, how long a key is remembered."""

    in_flight_max: int = 10_000
    ack_timeout_ms: int = 2_000
    partition_messages_max: int = 1_000_000
    partition_bytes_max: int = 1 << 30
    idempotency_ttl_ms: int = 600_000
    retention_ms: int = 7 * 24 * 3600 * 1000
    """How long messages of a topic that says nothing else are kept at least."""
    idempotency_keys_max: int = 20_000_000
    effect_ttl_ms: int = 604_800_000
    refuse_mismatch: bool = False
    """Another payload under a used key is an error instead of a warning."""
    count_unread: bool = False
    """Messages of a topic that nobody reads count against its limits (profile v1-dev)."""
