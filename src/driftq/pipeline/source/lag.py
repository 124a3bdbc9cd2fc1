"""A query's lag in messages: the source reports it in the query's progress, and this module reads it there.

Spark shows a source's latest offset. Beside the offsets, ours reports how many messages follow the batch, and
how many are in it where Spark gets fewer rows than that, under names that no topic can have. Before Spark 4.2
these notes are part of the offsets themselves, with one more: where the source ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

LAG = "~behind"
READ = "~read"
LATEST = "~latest"
_NOTE = "~"


class QueryProgress(Protocol):
    """The used part of Spark's StreamingQueryProgress."""

    @property
    def json(self) -> str: ...


def with_lag(offsets: Mapping[str, Any], lag: int, *, read: int | None = None) -> dict[str, Any]:
    return {**offsets, LAG: lag} | ({} if read is None else {READ: read})


def without_notes(offsets: Mapping[str, Any]) -> dict[str, Any]:
    """The offsets alone."""
    return {name: value for name, value in offsets.items() if not name.startswith(_NOTE)}


def messages_behind(progress: QueryProgress) -> int | None:
    """Messages, or events, after this batch; None when none of its sources is ours."""
    # Its fields would do, but in 4.0 they are Python's way to write offsets, and not JSON.
    sources = msgspec.json.decode(progress.json).get("sources", ())
    known = [lag for source in sources if (lag := _lag_in(source.get("latestOffset"))) is not None]
    return sum(known) if known else None


def _lag_in(latest: object) -> int | None:
    lag = latest.get(LAG) if isinstance(latest, dict) else None
    return lag if isinstance(lag, int) else None
