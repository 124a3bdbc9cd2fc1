"""Read models: the rows that a projection writes, newest sequence wins, and their targets.

    sink = SqliteSink("read_models.db")                       # or another one, or a sink of your own
    model = sink.connect("orders_by_id")
    writer_epoch = model.take_over()                          # fences every earlier run of this projection
    model.apply(Application(changes=…, positions=…), writer_epoch)
    for row in model.rows(): …

One application is one transaction: rows, registry, dead letters and positions are stored together or not at
all. PostgreSQL and Parquet can be written from Spark's tasks as well:

    staged = model.open_batch(writer_epoch)                   # in the driver
    attempt = staged.writer.begin(task=…, attempt=…)          # in each task; the writer travels there
    attempt.write_changes(…); report = attempt.finish()
    staged.commit(StagedCommit(reports=…, positions=…))       # in the driver: one transaction

`open_sink("sqlite:///read_models.db")` makes a sink of an address. Nothing here needs Spark. Sinks load when
they are first used: each needs packages of its own.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from driftq.sinks.port import (
    Application,
    AttemptReport,
    AttemptWriter,
    Capabilities,
    Change,
    FindsReadModels,
    GuardedReadModel,
    OutOfOrderEvent,
    ProjectionDeadLetter,
    ReadModel,
    ReadModelRow,
    ReadModelSink,
    RefusedChange,
    RegistryRow,
    StagedBatch,
    StagedCommit,
    StagedReadModel,
    TakesS3Endpoint,
    TaskWriter,
    TopicPartition,
    WriterEpoch,
)

if TYPE_CHECKING:
    from driftq.sinks.delta import DeltaSink
    from driftq.sinks.opensearch import OpenSearchSink
    from driftq.sinks.parquet import ParquetSink
    from driftq.sinks.postgres import PostgresSink
    from driftq.sinks.redis import RedisSink
    from driftq.sinks.sqlite import SqliteSink
    from driftq.sinks.terminusdb import TerminusSink
    from driftq.sinks.urls import open_sink

__all__ = [
    "Application",
    "AttemptReport",
    "AttemptWriter",
    "Capabilities",
    "Change",
    "DeltaSink",
    "FindsReadModels",
    "GuardedReadModel",
    "OpenSearchSink",
    "OutOfOrderEvent",
    "ParquetSink",
    "PostgresSink",
    "ProjectionDeadLetter",
    "ReadModel",
    "ReadModelRow",
    "ReadModelSink",
    "RedisSink",
    "RefusedChange",
    "RegistryRow",
    "SqliteSink",
    "StagedBatch",
    "StagedCommit",
    "StagedReadModel",
    "TakesS3Endpoint",
    "TaskWriter",
    "TerminusSink",
    "TopicPartition",
    "WriterEpoch",
    "open_sink",
]

_HOMES = {
    "DeltaSink": "delta",
    "OpenSearchSink": "opensearch",
    "ParquetSink": "parquet",
    "PostgresSink": "postgres",
    "RedisSink": "redis",
    "SqliteSink": "sqlite",
    "TerminusSink": "terminusdb",
    "open_sink": "urls",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value
