"""Reading what a projection has made, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from driftq.core.pipeline_options import PipelineOptions
from driftq.pipeline.app_file import load_app_file
from driftq.pipeline.projection.definition import default_sink
from driftq.pipeline.shipped import chosen_projections

if TYPE_CHECKING:
    from driftq.sinks import ReadModelSink, Row


@contextmanager
def read_rows(name: str, options: PipelineOptions, *, app_file: str | None) -> Iterator[Iterator[Row]]:
    """The rows of a read model; raises ReadModelNotFound, AppNotUsable, or an Unavailable.

    Without an app it is looked for where read models are kept that name no place of their own.
    """
    model = _sink(name, options, app_file).connect(name)
    try:
        yield model.rows()
    finally:
        model.close()


def _sink(name: str, options: PipelineOptions, app_file: str | None) -> ReadModelSink:
    if app_file is None:
        return default_sink(options)
    chosen: Any = chosen_projections(load_app_file(app_file).require_app(), name)[0]
    return chosen.targets(options)[0]
