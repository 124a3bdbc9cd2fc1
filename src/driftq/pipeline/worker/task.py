"""One Spark task of a worker: all rows of its topic partitions, in order, run to their ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from driftq.model.options.pipeline import PipelineOptions
from driftq.pipeline.worker.aggregate_queues import TopicEvent
from driftq.pipeline.worker.runtime import open_run
from driftq.pipeline.worker.spec import WorkerSpec
from driftq.registry.parking import ParkedEvent

if TYPE_CHECKING:
    import pyarrow as arrow

Task: TypeAlias = "Callable[[Iterable[arrow.RecordBatch]], Iterator[arrow.RecordBatch]]"

COLUMNS = ("topic", "partition", "offset", "value")
ANSWER = "how string, events long"
"""How many events had which outcome."""


def run_task(
    batches: Iterable[arrow.RecordBatch], *, spec: WorkerSpec, options: PipelineOptions
) -> Iterator[arrow.RecordBatch]:
    """Rows of `COLUMNS` in, sorted; one batch of `ANSWER` out."""
    import pyarrow as arrow

    places = [
        ParkedEvent(topic=topic, partition=partition, offset=offset, value=value or "")
        for batch in batches
        for topic, partition, offset, value in zip(
            *(batch.column(name).to_pylist() for name in COLUMNS), strict=True
        )
    ]
    if not places:
        return
    with open_run(spec, options) as run:
        run.run(TopicEvent.of(one) for one in places)
        for place in dict.fromkeys((one.topic, one.partition) for one in places):
            run.run_parked(place)
        counts = {how: events for how, events in run.counts.items() if events}
    yield arrow.record_batch({"how": list(counts), "events": list(counts.values())})
