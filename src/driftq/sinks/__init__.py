"""Read models: the rows that a projection writes, newest sequence wins, and their targets.

    sink = SqliteSink("read_models.db")                 # or PostgresSink(url), ParquetSink(folder)
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

Nothing here needs Spark.
"""

from driftq.sinks.parquet import ParquetSink
from driftq.sinks.port import (
    Application,
    AttemptReport,
    AttemptWriter,
    Capabilities,
    Change,
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
    TaskWriter,
    TopicPartition,
    WriterEpoch,
)
from driftq.sinks.postgres import PostgresSink
from driftq.sinks.sqlite import SqliteSink

__all__ = [
    "Application",
    "AttemptReport",
    "AttemptWriter",
    "Capabilities",
    "Change",
    "OutOfOrderEvent",
    "ParquetSink",
    "PostgresSink",
    "ProjectionDeadLetter",
    "ReadModel",
    "ReadModelRow",
    "ReadModelSink",
    "RefusedChange",
    "RegistryRow",
    "SqliteSink",
    "StagedBatch",
    "StagedCommit",
    "StagedReadModel",
    "TaskWriter",
    "TopicPartition",
    "WriterEpoch",
]
