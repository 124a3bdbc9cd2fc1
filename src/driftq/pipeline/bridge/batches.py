"""What both directions share: a batch divided by lane, and what its tasks report.

A lane is a partition of the source. One task has all rows of a lane, in the order of their offsets, and every
row is after those that earlier batches of the run had. Both targets skip what they have, so that a row which
comes late would be taken for one that was sent: it is refused instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from driftq.errors import BridgeReplaced, OffsetOutOfOrder, TopicBehind
from driftq.pipeline.publisher.lane_task import LANE
from driftq.publishing.lanes import Refusal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NOTHING_READ = -1


class CopyReport(msgspec.Struct):
    """The result of a task."""

    copied: int = 0
    dead_letters: int = 0
    skipped: int = 0
    """Rows that the target had from an earlier run."""
    lasts: dict[int, int] = {}
    """Of each lane the last offset that is copied."""
    openings: dict[int, str] = {}
    topic_id: str | None = None
    """Of the target, where something was sent to it."""
    refusal: Refusal | None = None


def divided(rows: DataFrame, *, lanes: int) -> DataFrame:
    """The rows of each lane in the task of its number, in the order of their offsets."""
    from pyspark.sql import functions as sql

    from driftq.pipeline.spark.compat import repartition_by_id

    named = rows.withColumn(LANE, sql.pmod(sql.col("partition"), sql.lit(lanes)).cast("int"))
    return repartition_by_id(named, lanes, LANE).sortWithinPartitions("partition", "offset")


class LaneOrder:
    """The last offset of each lane, over the rows of a task."""

    def __init__(self, after: Mapping[int, int]) -> None:
        """`after` are the last offsets of the batches before."""
        self.lasts = dict(after)

    def follow(self, lane: int, offset: int) -> None:
        """Raises OffsetOutOfOrder unless the offset is the lane's next one."""
        last = self.lasts.get(lane, NOTHING_READ)
        if offset <= last:
            raise OffsetOutOfOrder(lane, offset=offset, after=last)
        self.lasts[lane] = offset


def skipped_ranges(after: Mapping[int, int], starting: Mapping[int, int]) -> dict[int, tuple[int, int]]:
    """Of each lane the offsets between its last and its next: the first, and the one after the last."""
    return {lane: (after[lane] + 1, start) for lane, start in starting.items() if start > after[lane] + 1}


def require_accepted(reports: Iterable[CopyReport], *, route: str) -> None:
    """Raises BridgeReplaced or TopicBehind for a task that was refused."""
    for report in reports:
        if report.refusal is not None and report.refusal.replaced:
            raise BridgeReplaced(route)
        if report.refusal is not None:
            raise TopicBehind(report.refusal.text)


def reports_of(rows: Iterable[Any]) -> list[CopyReport]:
    """From the rows that tasks returned."""
    return [msgspec.json.decode(row.report, type=CopyReport) for row in rows]


def summed(reports: Iterable[CopyReport]) -> CopyReport:
    """The counts of a batch."""
    total = CopyReport()
    for report in reports:
        total.copied += report.copied
        total.dead_letters += report.dead_letters
        total.skipped += report.skipped
    return total
