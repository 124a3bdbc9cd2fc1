"""How long a message waits before its next delivery."""

from driftq.core.records import DeliveryTerms
from driftq.model.backoff import between, doubled

NACK_BASE_MS = 100
NACK_CAP_MS = 5_000


def nack_delay_ms(attempt: int) -> int:
    """The wait after the given delivery was nacked, for a message without a retry policy."""
    return doubled(NACK_BASE_MS, attempt - 1, cap=NACK_CAP_MS)


def retry_delay_ms(terms: DeliveryTerms, *, attempt: int, nacked: bool, jitter: float) -> int:
    """The wait after the given delivery failed. `jitter` is a random number from 0 to 1.

    A retry is never sooner than the policy's backoff, except at its cap, where jitter can only shorten the
    wait.
    """
    if terms.backoff_ms < 0:
        return nack_delay_ms(attempt) if nacked else 0
    cap = terms.max_backoff_ms
    wait = doubled(terms.backoff_ms, attempt - 1, cap=cap)
    if wait == cap:
        return round(cap * between(0.75, 1, jitter))
    return min(round(wait * between(1, 1.25, jitter)), cap)
