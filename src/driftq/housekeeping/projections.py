"""What else a round makes of the records it folds."""

from __future__ import annotations

from driftq.housekeeping.round import Projection


def make_projections(*, tables: str | None, history: str | None) -> list[Projection]:
    """Those that have a place to be kept at."""
    made: list[Projection] = []
    del tables, history
    return made
