"""Reading the read models of a pipeline; needs no Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

from driftq.model.options.pipeline import PipelineOptions
from driftq.pipeline.projection.definition import completed, default_sinks
from driftq.sinks import FindsReadModels, ProjectionDeadLetter, ReadModel, ReadModelSink


def rows(
    options: PipelineOptions, name: str, *, sink: ReadModelSink | None = None
) -> Iterator[dict[str, Any]]:
    """The rows of a read model, by type and id; raises ReadModelNotFound.

    A projection that names its own sink is read from there; of several sinks the first is read.
    """
    with closing(open_for_reading(options, name, sink)) as model:
        for row in model.rows():
            yield row._asdict()


def dead_letters(
    options: PipelineOptions, name: str, *, sink: ReadModelSink | None = None
) -> Iterator[ProjectionDeadLetter]:
    """The dead letters of a projection, with stage and error."""
    with closing(open_for_reading(options, name, sink)) as model:
        yield from model.dead_letters()


def open_for_reading(options: PipelineOptions, name: str, sink: ReadModelSink | None) -> ReadModel:
    """The read model; the lookup creates nothing. Raises ReadModelNotFound, if it can tell already."""
    sink = default_sinks(options)[0] if sink is None else completed(sink, options)
    return sink.find(name) if isinstance(sink, FindsReadModels) else sink.connect(name)
