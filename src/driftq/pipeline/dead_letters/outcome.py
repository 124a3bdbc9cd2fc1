"""The outcome of redriving a handler's dead letter."""

from __future__ import annotations

import enum
from typing import NamedTuple


class WhyNot(enum.StrEnum):
    """Why a dead letter was not redriven."""

    ALREADY_REDRIVEN = "already_redriven"
    NOT_FOUND = "not_found"
    """Neither the registry nor the read model has it."""
    REBUILD = "rebuild"
    """Later events were applied without it."""
    REFUSED = "refused"
    """It fails as it did before."""
    UNKNOWN_PROJECTION = "unknown_projection"
    NOT_REDRIVABLE = "not_redrivable"


class NotRedriven(NamedTuple):
    """A word for programs, and a sentence for people."""

    reason: WhyNot
    message: str
