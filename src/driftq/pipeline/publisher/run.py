"""A run of the publisher on Spark: each micro-batch is divided into lanes, and each lane is one task.

When little is left of the log, the driver itself appends it, as the publisher without Spark does.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import msgspec

from driftq.eventstore.seal.segment import SCHEMA
from driftq.eventstore.stored import StoredEvent
from driftq.pipeline.publisher.lane_task import LANE, REPORT_SCHEMA, LaneTask
from driftq.publishing.lanes import PublishReport, lane_of
from driftq.publishing.run import PublisherRun
from driftq.telemetry.tracing import report_spans
from driftq.transport.paths import Query
from driftq.transport.server import Server

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FEW_EVENTS = 200
"""What the driver appends itself."""

_decode = msgspec.json.Decoder(PublishReport).decode
_decode_events = msgspec.json.Decoder(StoredEvent).decode_lines


class SparkPublisherRun(PublisherRun):
    """To DriftQ topics. Everything happens on the query's own thread."""

    _log: Server | None = None

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        began_ns = time.time_ns()
        few = self._few_events()
        if few is None:
            self.publish(rows)
        elif few:
            self._confirm([self._publish_few(few)], began_ns=began_ns)

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
        self._confirm([_decode(report) for report in reports], began_ns=began_ns)

    def close(self) -> None:
        if self._log is not None:
            self._log.close()
            self._log = None

    def _few_events(self) -> list[StoredEvent] | None:
        """Everything that the log has and the topics have not, where it is little; None where it is much.

        The rows of the batch are among it: all of them are in the log, and what is not above our position is
        confirmed. There may be more, which the next batches then find to be done.
        """
        if self._log is None:
            self._log = Server(self._options.url, credentials=self._options.credentials)
        after = self.after if self.looks_back else self.checkpoint.position
        query: Query = {"from": after + 1, "limit": FEW_EVENTS + 1, "stored": True}
        events = _decode_events(self._log.content("/v1/events/log", query))
        return events if len(events) <= FEW_EVENTS else None

    def _publish_few(self, events: Sequence[StoredEvent]) -> PublishReport:
        """In this process: a job of Spark costs more than some hundred appends."""
        lanes = self.checkpoint.lanes
        return self.appends().append((lane_of(event.aggregate_id, lanes), event) for event in events)

    def _confirm(self, reports: Sequence[PublishReport], *, began_ns: int) -> None:
        self.note_reports(reports)
        self.store_checkpoint()
        report_spans(
            "publish events",
            [trace for report in reports for trace in report.traces],
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
