"""A query's lag in messages: the source reports it in the query's progress, and this module reads it there.

Spark shows a source's latest offset. Beside the offsets, ours reports how many messages follow the batch, and
how many are in it where Spark gets fewer rows than that, under names that no topic can have.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

LAG = "~behind"
READ = "~read"


class QueryProgress(Protocol):
    """The used part of Spark's StreamingQueryProgress."""

    @property
    def sources(self) -> Any: ...


def with_lag(offsets: Mapping[str, Any], lag: int, *, read: int | None = None) -> dict[str, Any]:
    return {**offsets, LAG: lag} | ({} if read is None else {READ: read})


def messages_behind(progress: QueryProgress) -> int | None:
    """Messages, or events, after this batch; None when none of its sources is ours."""
    known = [lag for source in progress.sources if (lag := _lag_in(source.latestOffset)) is not None]
    return sum(known) if known else None


def _lag_in(latest: str | None) -> int | None:
    try:
        said = msgspec.json.decode(latest or "null")
    except msgspec.DecodeError:
        return None  # Another source's own way to write its offsets.
    lag = said.get(LAG) if isinstance(said, dict) else None
    return lag if isinstance(lag, int) else None
