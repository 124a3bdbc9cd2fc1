"""A message that a group dead-letters."""

import msgspec

MAX_ATTEMPTS = "max_attempts"
NOT_RETRYABLE = "not_retryable"
DEADLINE_EXCEEDED = "deadline_exceeded"


class DeadLettered(msgspec.Struct, frozen=True, gc=False):
    """Which message, for which group, and why."""

    topic: str
    group: str
    partition: int
    ordinal: int
    attempts: int
    last_error: str
    reason: str
