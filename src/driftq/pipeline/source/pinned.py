"""The end of a run with `--once` where Spark ends a query with `Trigger.AvailableNow` after one batch.

Before Spark 4.2 a source that limits its batches gets one batch a run. So such a run is repeated until it has
reached the end that the source had in the first one: messages that arrive meanwhile do not keep it going.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from driftq.pipeline.source.lag import LATEST, without_notes
from driftq.pipeline.source.offsets import reaches

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


class PinnedEnd:
    """Where the sources of a query ended when its first run began."""

    def __init__(self) -> None:
        self._pinned: dict[int, dict[str, Any]] | None = None

    def reached_by(self, query: StreamingQuery) -> bool:
        """Whether this run, which has ended, was the last one that is needed."""
        told = query.recentProgress
        return not told or self.reached_at(json.loads(told[-1].json))

    def reached_at(self, progress: Mapping[str, Any]) -> bool:
        """The same, by the last progress of the run.

        A source without the note needs no other run: it has no limit, or nothing was left to read.
        """
        ends = {
            index: source["endOffset"]
            for index, source in enumerate(progress.get("sources", ()))
            if isinstance(source.get("endOffset"), dict)
            and LATEST in source["endOffset"]
            and source.get("startOffset") != source["endOffset"]
        }
        if self._pinned is None:
            self._pinned = {index: end[LATEST] for index, end in ends.items()}
        return all(reaches(without_notes(end), self._pinned.get(index, {})) for index, end in ends.items())
