"""A run of the publisher to Kafka, in the driver: each lane is one task, and every batch is checked first."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import msgspec

from driftq.eventstore.published import PUBLISHED_COLUMNS
from driftq.pipeline.publisher.kafka.task import KafkaLaneTask
from driftq.pipeline.publisher.lane_task import REPORT_SCHEMA
from driftq.pipeline.publisher.run import divided_by_lane
from driftq.publishing.kafka.run import KafkaRun
from driftq.publishing.kafka.sends import LaneReport

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_decode = msgspec.json.Decoder(LaneReport).decode


class SparkKafkaRun(KafkaRun):
    """Everything happens on the query's own thread."""

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        self.publish(rows)

    def publish(self, rows: DataFrame) -> None:
        from pyspark.sql import functions as sql

        divided = divided_by_lane(rows, PUBLISHED_COLUMNS, lanes=self.checkpoint.lanes).persist()
        try:
            at = sql.col("position")
            found = divided.agg(sql.min(at), sql.max(at), sql.count_distinct(at)).first()
            assert found is not None  # An aggregate has one row.
            first, last, count = found
            if not count:
                return
            self.require_next(first, last, count=count)
            self.require_topics()
            task: Any = self.lane_task(first, last)
            rows_back = divided.mapInArrow(task, REPORT_SCHEMA).collect()
        finally:
            divided.unpersist()
        self.note_lanes(first, last, [_decode(row.report) for row in rows_back])
        self.store_checkpoint()

    def lane_task(self, first: int, last: int) -> KafkaLaneTask:
        sends = self.lane_sends(first, last)
        return KafkaLaneTask(**{one.name: getattr(sends, one.name) for one in fields(sends)})
