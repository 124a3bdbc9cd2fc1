"""What a run of a handler leaves behind: its result for duplicates, or what it raised."""

from __future__ import annotations

import logging
from typing import Any

import msgspec

from driftq.registry.verdict import Reject, Retry, error_text

__all__ = ["Reject", "Retry", "error_text", "stored_result"]

logger = logging.getLogger("driftq.worker")


def stored_result(result: Any) -> msgspec.Raw | msgspec.UnsetType:
    """What is kept for duplicates; what JSON cannot say is left out, because the effect has happened."""
    if result is None:
        return msgspec.UNSET
    try:
        return msgspec.Raw(msgspec.json.encode(result))
    except (TypeError, ValueError, RecursionError, OverflowError) as wrong:
        logger.warning("a result was not stored because it is not JSON: %s", wrong)
        return msgspec.UNSET
