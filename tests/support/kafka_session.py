"""The Spark session of tests that read from Kafka: its JVM has the connector from the start."""

from __future__ import annotations

import atexit
import tempfile
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from driftq.settings import load_settings
from tests.support.maven import jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@cache
def kafka_session() -> SparkSession:
    """One for the whole run; opened before any other session of the process."""
    import pyspark

    from driftq.pipeline import open_session

    release = ".".join(pyspark.__version__.split(".")[:2])
    options = load_settings(environ={}).pipeline(data=tempfile.mkdtemp(prefix="driftq-spark-"))
    kafka = replace(options.kafka, spark_jars=",".join(map(str, jars(f"spark-kafka-{release}"))))
    session = open_session(
        replace(options, kafka=kafka), master="local[2]", app_name="tests", reads_kafka=True
    )
    atexit.register(session.stop)
    return session
