"""Names and options of topics."""

import re

import msgspec

MAX_PARTITIONS = 4096
DEAD_LETTER_PREFIX = "dlq."
INTERNAL_PREFIX = "~"
"""The broker's own topics, which no client can name."""
TABLE_PREFIX = "events."
"""Topics whose names begin with this are tables unless they are created otherwise."""

_NAME = re.compile(r"[A-Za-z0-9._-]{1,245}")


class TopicOptions(msgspec.Struct, frozen=True, array_like=True):
    """The options of one topic; None means the server's default."""

    retention_ms: int | None = None
    retention_bytes: int | None = None
    table: bool = False


def topic_name_problem(name: str) -> str | None:
    """Why this cannot name a topic, or None when it can."""
    if not _NAME.fullmatch(name):
        return "must be 1 to 245 characters of A-Z a-z 0-9 . _ -"
    if name in (".", ".."):
        return "must not be . or .."
    if name.startswith(DEAD_LETTER_PREFIX):
        return f"must not start with {DEAD_LETTER_PREFIX} (reserved for dead letters)"
    return None
