"""The limits that the core decides by."""

from dataclasses import dataclass

LEASE_MS_MAX = 43_200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits on unsettled messages, lease lengths, and how long a key stays live."""

    in_flight_max: int = 10_000
    ack_timeout_ms: int = 2_000
    partition_messages_max: int = 1_000_000
    partition_bytes_max: int = 1 << 30
    idempotency_ttl_ms: int = 600_000
    retention_ms: int = 7 * 24 * 3600 * 1000
    """The minimum retention of topics that set none."""
    idempotency_keys_max: int = 20_000_000
    effect_ttl_ms: int = 604_800_000
    jobs_kept_ms: int = 30 * 24 * 3600 * 1000
    """How long an ended job can be read, with its result."""
    refuse_mismatch: bool = False
    """A used key with another payload is an error instead of a warning."""
    count_unread: bool = False
    """Messages of a topic without readers count against its limits (profile v1-dev)."""
