"""How much was left to read when a batch ended, from what Spark's progress says about the sources."""

from __future__ import annotations

import json
from typing import Any


def lag_of(progress: dict[str, Any]) -> int | None:
    """Over all sources; None when one of them cannot say."""
    lags = [_lag(source) for source in progress.get("sources", ())]
    known = [lag for lag in lags if lag is not None]
    return sum(known) if known and len(known) == len(lags) else None


def _lag(source: dict[str, Any]) -> int | None:
    end, latest = _offsets(source.get("endOffset")), _offsets(source.get("latestOffset"))
    if end is None or latest is None:
        return None
    return sum(max(0, place - end.get(name, 0)) for name, place in latest.items())


def _offsets(given: Any) -> dict[tuple[str, ...], int] | None:
    """Every number of an offset under the names that lead to it."""
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError:
            return None
    if isinstance(given, int):
        return {(): given}
    if not isinstance(given, dict):
        return None
    found: dict[tuple[str, ...], int] = {}
    for name, inner in given.items():
        for path, place in (_offsets(inner) or {}).items():
            found[(str(name), *path)] = place
    return found
