"""`compact`: the event log's small segments are joined into large ones, a task for each."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from driftq.eventstore.objects import JoinableObjects, S3Access, open_objects
from driftq.eventstore.seal.compaction import EVENTS_MAX, GRACE_S, join, plan_joins, remove_covered
from driftq.eventstore.stored import SegmentRange
from driftq.model.options.events import EventOptions
from driftq.model.options.pipeline import PipelineOptions
from driftq.pipeline.runtime.job import ReportProgress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class CompactionJob:
    """One run. It may be killed and restarted at any time, also beside another one."""

    options: PipelineOptions
    events_max: int = EVENTS_MAX
    grace_s: float = GRACE_S

    @property
    def name(self) -> str:
        return "compact"

    def run(self, spark: SparkSession, report: ReportProgress) -> None:
        """Join small segments, and remove those that were joined a while ago."""
        events = self.options.events
        objects = event_objects(events)
        removed = remove_covered(objects, now=time.time(), grace_s=self.grace_s)
        report(f"removed {len(removed)} segments that were joined before")
        groups = plan_joins(objects.sizes(), events_max=self.events_max)
        if not groups:
            report("nothing to join")
            return
        report(f"joining {sum(map(len, groups))} segments into {len(groups)}")

        def work(group: list[SegmentRange]) -> SegmentRange:
            return join(event_objects(events), group)

        tasks = spark.sparkContext.parallelize(groups, len(groups))
        joined = tasks.map(work).collect()
        report(f"the log up to position {joined[-1].last} is in {len(joined)} segments")


def event_objects(events: EventOptions) -> JoinableObjects:
    """Where the segments are that these options name."""
    url = events.objects_url or Path(str(events.objects_folder)).absolute().as_uri()
    return open_objects(url, access=S3Access(endpoint=events.s3_endpoint))
