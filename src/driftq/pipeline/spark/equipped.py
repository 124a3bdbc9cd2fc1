"""Whether a session can run what we ask of it, checked before it fails with a traceback of its own."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from typing import TYPE_CHECKING, Any

from driftq.errors import SparkUnusable
from driftq.pipeline.runtime.causes import HOW_TO_EQUIP_WORKERS, WORKERS_CANNOT_IMPORT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NO_KAFKA_SOURCE = "Failed to find data source: kafka"
"""In Spark's error; its condition has a name only since 4.1."""


def require_equipped_workers(spark: SparkSession) -> None:
    """Raise SparkUnusable if a worker that Spark starts for this session cannot import DriftQ.

    On this machine, and under this interpreter, it can. Otherwise one task checks it, made of the standard
    library alone, because our own modules could not be loaded there. Any other failure of that task is not
    reported here: the first query reports it in Spark's own words.
    """
    try:
        found = _found_by_connect(spark) if is_connect(spark) else _found_by_task(spark)
    except Exception:  # noqa: BLE001 - A busy machine starts no worker in time, and Spark fails in many ways.
        return
    if not found:
        raise SparkUnusable(WORKERS_CANNOT_IMPORT, remedy=HOW_TO_EQUIP_WORKERS)


def require_kafka_source(spark: SparkSession) -> None:
    """Raise SparkUnusable for a session without Spark's Kafka source.

    Jars are loaded when the JVM starts: a session that was opened without them cannot get them later.
    """
    if is_connect(spark) or has_kafka_source(spark):
        return
    raise SparkUnusable(
        "this Spark session cannot read from Kafka: it was opened without Spark's Kafka connector",
        remedy="open it with driftq.pipeline.open_session(options, reads_kafka=True) before any other "
        "session of this process, or start your own with its jars in spark.jars (DRIFTQ_SPARK_KAFKA_JARS)",
    )


def has_kafka_source(spark: SparkSession) -> bool:
    """Spark looks for the source before it looks at its options, which are missing here."""
    try:
        spark.read.format("kafka").load()
    except Exception as refused:  # noqa: BLE001 - With the source it is another error: an option is missing.
        return _NO_KAFKA_SOURCE not in str(refused)
    return True


def require_own_driver(spark: SparkSession) -> None:
    """Raise SparkUnusable for a session of Spark Connect: a job holds connections and threads beside it."""
    if is_connect(spark):
        raise connect_refused()


def connect_refused() -> SparkUnusable:
    return SparkUnusable(
        "the pipeline's jobs run beside Spark's driver, and this is a Spark Connect session",
        remedy="run them on a master (--master spark://…, or local[*]) without SPARK_REMOTE; "
        'in a Connect session use format("driftq") and format("driftq-events")',
    )


def is_connect(spark: SparkSession) -> bool:
    """Whether the session is a client of a driver elsewhere."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def _found_by_task(spark: SparkSession) -> bool:
    context: Any = spark.sparkContext
    if context.master.startswith("local") and runs_here(context.pythonExec):
        return True
    return bool(context.parallelize(["driftq"], 1).map(importlib.util.find_spec).map(bool).collect()[0])


def _found_by_connect(spark: SparkSession) -> bool:
    from pyspark.sql.functions import udf

    from driftq.pipeline.spark.unpacking import can_import_driftq

    look = udf(can_import_driftq, "boolean", useArrow=False)
    return bool(spark.range(1).select(look("id")).collect()[0][0])


def runs_here(command: str) -> bool:
    """Whether this command is the interpreter that we run in: `python3` in a venv is `python` there."""
    path = shutil.which(command)
    if path is None:
        return False
    same_folder = os.path.dirname(os.path.abspath(path)) == os.path.dirname(sys.executable)
    return same_folder and os.path.realpath(path) == os.path.realpath(sys.executable)
