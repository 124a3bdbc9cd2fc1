"""One Spark task of the publisher: it appends the events of its lanes to their topics, in log order.

It runs in a worker process away from the driver, so it holds only values and returns one report.
A task that runs twice sends the same positions twice, and the topic skips them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from driftq.eventstore.stored import StoredEvent, stored_events
from driftq.publishing.lanes import LaneAppends, PublishReport

if TYPE_CHECKING:
    import pyarrow as arrow

LANE = "lane"
REPORT_SCHEMA = "report string"


def report_row(report: msgspec.Struct) -> arrow.RecordBatch:
    """The report of a task as its only row."""
    import pyarrow as arrow

    return arrow.RecordBatch.from_pydict({"report": [msgspec.json.encode(report).decode()]})


def own_lane() -> int:
    """The lane of the task that this runs in: rows are divided so that each lane has one."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None  # It runs in a task.
    return context.partitionId()


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneTask(LaneAppends):
    """For `mapInArrow`: rows of the event log with their lane in, one report out."""

    def __call__(self, batches: Iterator[arrow.RecordBatch]) -> Iterator[arrow.RecordBatch]:
        yield report_row(self.publish(batches))

    def publish(self, batches: Iterator[arrow.RecordBatch]) -> PublishReport:
        return self.append(_events(batches))


def _events(batches: Iterator[arrow.RecordBatch]) -> Iterator[tuple[int, StoredEvent]]:
    for batch in batches:
        yield from zip(batch.column(LANE).to_pylist(), stored_events(batch), strict=True)
