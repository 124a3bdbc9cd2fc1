"""Reading the read models of a pipeline; needs no Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

from driftq.core.pipeline_options import PipelineOptions
from driftq.pipeline.projection.definition import default_sink
from driftq.sinks import DeadLetter, ReadModelSink


def rows(
    options: PipelineOptions, name: str, *, sink: ReadModelSink | None = None
) -> Iterator[dict[str, Any]]:
    """The rows of a read model, by type and id; raises ReadModelNotFound.

    A projection that names its own sink is read from there.
    """
    with closing((sink or default_sink(options)).connect(name)) as model:
        for row in model.rows():
            yield row._asdict()


def dead_letters(
    options: PipelineOptions, name: str, *, sink: ReadModelSink | None = None
) -> Iterator[DeadLetter]:
    """What a projection could not apply, with stage and error."""
    with closing((sink or default_sink(options)).connect(name)) as model:
        yield from model.dead_letters()
