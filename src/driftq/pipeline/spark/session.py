"""Opening Spark the way the pipeline needs it: on this machine by default, on any master unchanged."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from driftq.model.options.pipeline import KAFKA, PipelineOptions
from driftq.pipeline.spark.connector_jars import connector_settings
from driftq.pipeline.spark.equipped import connect_refused, require_kafka_source
from driftq.pipeline.spark.java import require_spark
from driftq.settings import prefer_python, uses_spark_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL = "local[*]"
_SHUFFLE_PARTITIONS_MAX = 4

_LOGGING = Path(__file__).with_name("log4j2.properties")

_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.python.filterPushdown.enabled": "true",
    # Two copies of a task of the publisher would fence each other.
    "spark.speculation": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.streaming.metricsEnabled": "false",
    # A query reports progress also while nothing arrives.
    "spark.sql.streaming.noDataProgressEventInterval": "10000",
    "spark.sql.streaming.stopTimeout": "30000",
    # A busy machine takes long to start a worker.
    "spark.python.authenticate.socketTimeout": "120s",
    # Each check for new messages is a call to the server.
    "spark.sql.streaming.pollingDelay": "100ms",
}


def open_session(
    options: PipelineOptions,
    *,
    master: str | None = None,
    app_name: str = "driftq",
    reads_kafka: bool | None = None,
    conf: Mapping[str, str] | None = None,
) -> SparkSession:
    """A session with our formats registered; raises SparkUnusable when Spark or its Java is missing.

    With `reads_kafka` it has Spark's Kafka connector, which is fetched where it is not there yet; the default
    is yes where Kafka is the transport. `conf` are settings of Spark that count before ours. A session that
    is already open in this process is used as it is; one of Spark Connect is refused, and so is one without
    the connector if `reads_kafka` is True.
    """
    require_spark()
    if uses_spark_connect():
        raise connect_refused()
    prefer_python(sys.executable)
    from pyspark import __version__ as spark_version
    from pyspark.sql import SparkSession

    from driftq.pipeline.spark.formats import register

    builder = SparkSession.builder.appName(app_name)
    settings = session_settings(options, master=master or LOCAL)
    if needs_connector(options, reads_kafka=reads_kafka):
        settings |= connector_settings(options.kafka, spark_version)
    settings |= dict(conf or {})
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    register(spark)
    if reads_kafka:
        require_kafka_source(spark)
    return spark


def needs_connector(options: PipelineOptions, *, reads_kafka: bool | None) -> bool:
    """Whether a session gets Spark's Kafka connector; None leaves it to the transport."""
    return options.transport == KAFKA if reads_kafka is None else reads_kafka


def session_settings(options: PipelineOptions, *, master: str) -> dict[str, str]:
    """Spark's configuration. Python workers run this interpreter and find DriftQ where it is here."""
    from driftq.pipeline.spark.compat import checkpoint_files_class

    folder = f"{options.folder}/spark"
    local = master.startswith("local")
    settings = _SETTINGS | {
        "spark.master": master,
        "spark.log.level": "ERROR",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{_LOGGING}",
        "spark.executorEnv.PYTHONPATH": python_path(),
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
    }
    if local:
        cores = os.cpu_count() or 2
        settings |= {
            "spark.sql.shuffle.partitions": str(max(2, min(_SHUFFLE_PARTITIONS_MAX, cores))),
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.memory": _memory_of_its_own(),
            # For each file of a local checkpoint Spark's default starts ten processes, readlink and chmod:
            # 60 ms, four times in a micro-batch. A rename in one call is atomic here as well.
            "spark.sql.streaming.checkpointFileManagerClass": checkpoint_files_class(),
        }
    return settings


def _memory_of_its_own() -> str:
    """A quarter of the machine's memory, at least 1 and at most 4 GiB.

    On one machine the driver is all there is of Spark, and the newest rows of a batch pass through it. With
    Spark's own 1 GiB a batch of some hundred thousand aggregates fails.
    """
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return f"{min(4_096, max(1_024, machine // 4 >> 20))}m"


def python_path() -> str:
    """Where workers look for modules: where DriftQ is, and what was added to this interpreter's own."""
    own = str(Path(__file__).parents[3])
    added = [path for path in sys.path if path and not path.startswith((sys.prefix, sys.base_prefix))]
    return os.pathsep.join(dict.fromkeys([own, *added]))
