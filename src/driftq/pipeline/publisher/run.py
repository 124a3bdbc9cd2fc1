"""A run of the publisher on Spark: each micro-batch is divided into lanes, and each lane is one task."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import msgspec

from driftq.eventstore.seal.segment import SCHEMA
from driftq.pipeline.publisher.lane_task import LANE, REPORT_SCHEMA, LaneTask
from driftq.publishing.lanes import PublishReport
from driftq.publishing.run import PublisherRun
from driftq.telemetry.tracing import report_spans

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_decode = msgspec.json.Decoder(PublishReport).decode


class SparkPublisherRun(PublisherRun):
    """To DriftQ topics. Everything happens on the query's own thread."""

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        self.publish(rows)

    def publish(self, rows: DataFrame) -> None:
        """One micro-batch: each lane in one task, in log order."""
        task: Any = self.task()
        began_ns = time.time_ns()
        divided = divided_by_lane(rows, lanes=self.checkpoint.lanes)
        reports = divided.mapInArrow(task, REPORT_SCHEMA).collect()
        self.confirm([row.report for row in reports], began_ns=began_ns)

    def task(self) -> LaneTask:
        """The task of the next batch."""
        appends = self.appends()
        return LaneTask(**{one.name: getattr(appends, one.name) for one in fields(appends)})

    def confirm(self, reports: Sequence[str], *, began_ns: int) -> None:
        """All tasks of a batch are done: move the checkpoint over it. Raises when one was refused."""
        decoded = [_decode(report) for report in reports]
        self.note_reports(decoded)
        self.store_checkpoint()
        report_spans(
            "publish events",
            [trace for report in decoded for trace in report.traces],
            began_ns=began_ns,
            ended_ns=time.time_ns(),
            attributes={"messaging.system": "driftq", "messaging.operation.name": "publish"},
        )


def divided_by_lane(
    rows: DataFrame, columns: Sequence[str] = tuple(SCHEMA.names), *, lanes: int
) -> DataFrame:
    """These columns by lane, one partition each, in log order. The lanes are those of `lane_of`."""
    from pyspark.sql import functions as sql

    from driftq.pipeline.spark.compat import repartition_by_id

    lane = (sql.crc32(sql.col("aggregate_id").cast("binary")) % lanes).cast("int")
    named = rows.select(*columns).withColumn(LANE, lane)
    return repartition_by_id(named, lanes, LANE).sortWithinPartitions("position")
