"""What a handler raises to say what shall become of its work."""

from __future__ import annotations

import logging
from typing import Any

import msgspec

logger = logging.getLogger("driftq.worker")

ERROR_CHARACTERS_MAX = 1_000


class Retry(Exception):
    """Not now: try it again, not sooner than `after` seconds from now when that is given."""

    def __init__(self, reason: str = "asked for a retry", *, after: float | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.after = after

    @property
    def after_ms(self) -> int | None:
        return None if self.after is None else max(1, round(self.after * 1000))


class Reject(Exception):
    """Never: trying again is pointless, so it goes to the dead letters at once."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def stored_result(result: Any) -> msgspec.Raw | msgspec.UnsetType:
    """What is kept for duplicates; what JSON cannot say is left out, because the effect has happened."""
    if result is None:
        return msgspec.UNSET
    try:
        return msgspec.Raw(msgspec.json.encode(result))
    except (TypeError, ValueError, RecursionError, OverflowError) as wrong:
        logger.warning("a result is not kept, because it is no JSON: %s", wrong)
        return msgspec.UNSET


def error_text(error: BaseException) -> str:
    """What is kept as `last_error`."""
    if isinstance(error, Retry | Reject):
        return error.reason[:ERROR_CHARACTERS_MAX]
    text = str(error)
    name = type(error).__name__
    return (f"{name}: {text}" if text else name)[:ERROR_CHARACTERS_MAX]
