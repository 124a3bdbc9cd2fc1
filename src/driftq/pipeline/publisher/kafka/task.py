"""One Spark task of the publisher to Kafka: it sends the events of its lane, also where there are none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from driftq.eventstore.published import PUBLISHED_COLUMNS
from driftq.eventstore.stored import column_values
from driftq.pipeline.publisher.lane_task import LANE, own_lane, report_row
from driftq.publishing.kafka.sends import LaneReport, LaneSends, RowBatch

if TYPE_CHECKING:
    import pyarrow as arrow


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaLaneTask(LaneSends):
    """For `mapInArrow`: rows of one lane in, one report out; also where there are no rows."""

    def __call__(self, batches: Iterator[arrow.RecordBatch]) -> Iterator[arrow.RecordBatch]:
        yield report_row(self.publish(own_lane(), batches))

    def publish(self, lane: int, batches: Iterator[arrow.RecordBatch]) -> LaneReport:
        return self.send(lane, (self._rows(lane, batch) for batch in batches))

    def _rows(self, lane: int, batch: arrow.RecordBatch) -> RowBatch:
        _require_lane(batch, lane)
        columns = [column_values(batch.column(name)) for name in PUBLISHED_COLUMNS]
        tail = batch.slice(max(0, batch.num_rows - self.recent_max))
        positions, ids = tail.column("position").to_pylist(), tail.column("event_id").to_pylist()
        return RowBatch(zip(*columns, strict=True), list(zip(positions, ids, strict=True)))


def _require_lane(batch: arrow.RecordBatch, lane: int) -> None:
    """Rows of another lane would be sent out of its order: Spark has to divide them by lane."""
    import pyarrow.compute

    strangers = pyarrow.compute.not_equal(batch.column(LANE), lane)
    if pyarrow.compute.any(strangers).as_py():
        raise AssertionError(f"the task of lane {lane} got rows of another lane")
