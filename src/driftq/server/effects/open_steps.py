"""Steps that are not done: those under way, and those whose outcome nobody knows.

Effects under way are kept in the order in which they began or were extended last, so those that have lapsed
come first. A look stops after a bounded number of effects.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from driftq.core.decide.effects import is_unknown
from driftq.core.effects import EffectTable, Identity, PendingEffect, step_of

LOOKED_AT_MAX = 5_000


class OpenStep(NamedTuple):
    """A step that began and has not ended."""

    identity: Identity
    run_id: str
    step_id: str
    pending: PendingEffect
    is_unknown: bool


def open_steps(effects: EffectTable, *, now: int) -> Iterator[OpenStep]:
    """Among the effects that began longest ago, as they are at the first step; they may change meanwhile."""
    for (identity, _), pending in list(islice(effects.pending.items(), LOOKED_AT_MAX)):
        step = step_of(identity)
        if step is not None:
            yield OpenStep(identity, *step, pending, is_unknown(pending, now))


def count_unknown(effects: EffectTable, *, now: int, tenant: str | None = None) -> int:
    """How many of them wait for a decision; with a tenant, of its own."""
    return sum(
        is_unknown(pending, now) and step_of(identity) is not None and tenant in (None, identity[0])
        for (identity, _), pending in islice(effects.pending.items(), LOOKED_AT_MAX)
    )
