"""One Spark task of a worker: the rows of its aggregates, run to their ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from driftq.model.options.pipeline import PipelineOptions
from driftq.pipeline.worker.queues import TopicEvent
from driftq.pipeline.worker.runtime import open_run
from driftq.pipeline.worker.spec import WorkerSpec
from driftq.registry.parking import ParkedEvent

if TYPE_CHECKING:
    import pyarrow as arrow

Task: TypeAlias = "Callable[[Iterable[arrow.RecordBatch]], Iterator[arrow.RecordBatch]]"

COLUMNS = ("topic", "partition", "offset", "value")
ANSWER = "how string, events long, topic string, partition long, next_offset long"
"""Rows of three kinds: how many events had which outcome, the offset after the last one of a partition, and
topics without an identity."""


def run_task(
    batches: Iterable[arrow.RecordBatch],
    *,
    spec: WorkerSpec,
    options: PipelineOptions,
    identities: Mapping[str, str],
) -> Iterator[arrow.RecordBatch]:
    """Rows of `COLUMNS` in, all those of an aggregate; one batch of `ANSWER` out.

    `identities` of the topics. Nothing is run when there is a topic without one.
    """
    places: list[ParkedEvent] = []
    following: dict[tuple[str, int], int] = {}
    for batch in batches:
        columns = (batch.column(name).to_pylist() for name in COLUMNS)
        for topic, partition, offset, value in zip(*columns, strict=True):
            following[topic, partition] = max(following.get((topic, partition), 0), offset + 1)
            places.append(
                ParkedEvent(
                    topic=topic,
                    partition=partition,
                    offset=offset,
                    value=value or "",
                    identity=identities.get(topic, ""),
                )
            )
    if unknown := {topic for topic, _ in following}.difference(identities):
        yield _answer([{"topic": topic} for topic in unknown])
    elif places:
        with open_run(spec, options, in_task=True) as run:
            run.run(map(TopicEvent.of, places))
        counts = [{"how": how, "events": events} for how, events in run.counts.items() if events]
        ends = [
            {"topic": topic, "partition": partition, "next_offset": next_offset}
            for (topic, partition), next_offset in following.items()
        ]
        yield _answer([*counts, *ends])


def _answer(rows: list[dict[str, Any]]) -> arrow.RecordBatch:
    import pyarrow as arrow

    types = {"string": arrow.string(), "long": arrow.int64()}
    columns = (column.split() for column in ANSWER.split(", "))
    schema = arrow.schema([(name, types[kind]) for name, kind in columns])
    return arrow.RecordBatch.from_pylist(rows, schema=schema)
