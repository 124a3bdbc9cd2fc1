"""How long a message waits before its next delivery."""

NACK_BASE_MS = 100
NACK_CAP_MS = 5_000


def nack_delay_ms(attempt: int) -> int:
    """The wait after the given delivery was nacked, for a message without a retry policy."""
    if attempt > 16:  # Beyond this the power only costs digits.
        return NACK_CAP_MS
    return min(NACK_BASE_MS << (attempt - 1), NACK_CAP_MS)
