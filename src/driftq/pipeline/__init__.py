"""The data pipeline on Spark: the only package that imports pyspark, and only for a session.

Names load when they are first used, so that `import driftq.pipeline` does not load Spark.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from driftq.eventstore.published import PublishedEvent as PublishedEvent
    from driftq.pipeline.app.app import App as App
    from driftq.pipeline.projection.definition import Projection as Projection
    from driftq.pipeline.projection.folds import latest_state as latest_state
    from driftq.pipeline.projection.folds import ordered as ordered
    from driftq.pipeline.spark.formats import register as register
    from driftq.pipeline.spark.session import open_session as open_session
    from driftq.pipeline.worker.context import WorkerContext as WorkerContext
    from driftq.pipeline.worker.derived import DerivedEvent as DerivedEvent
    from driftq.pipeline.worker.spec import WorkerSpec as WorkerSpec
    from driftq.registry.verdict import UnknownEffect as UnknownEffect
    from driftq.sinks import DeltaSink as DeltaSink
    from driftq.sinks import ParquetSink as ParquetSink
    from driftq.sinks import PostgresSink as PostgresSink
    from driftq.sinks import SqliteSink as SqliteSink

_HOMES = {
    "PublishedEvent": "driftq.eventstore.published",
    "DeltaSink": "driftq.sinks",
    "ParquetSink": "driftq.sinks",
    "PostgresSink": "driftq.sinks",
    "Projection": "driftq.pipeline.projection.definition",
    "SqliteSink": "driftq.sinks",
    "latest_state": "driftq.pipeline.projection.folds",
    "ordered": "driftq.pipeline.projection.folds",
    "DerivedEvent": "driftq.pipeline.worker.derived",
    "UnknownEffect": "driftq.registry.verdict",
    "WorkerContext": "driftq.pipeline.worker.context",
    "WorkerSpec": "driftq.pipeline.worker.spec",
    "App": "driftq.pipeline.app.app",
    "open_session": "driftq.pipeline.spark.session",
    "register": "driftq.pipeline.spark.formats",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'driftq.pipeline' has no attribute {name!r}")
    value: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
