"""The jars of Spark's Kafka connector, fetched by Spark's own resolver when they are first needed.

`spark.jars.packages` would also fetch what the artifacts name as dependencies, in versions that contradict
each other and Spark. `ADD JAR` with `transitive=false` fetches one artifact alone, but too late for the
session that runs it. So a session of its own, in a process of its own, fetches them into a cache; every
later session finds them there.
"""

from __future__ import annotations

import fcntl
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from driftq.errors import SparkUnusable
from driftq.model.options.kafka import PROVIDED, KafkaOptions
from driftq.pipeline.spark.connectors import KafkaConnector, connector_of
from driftq.settings import cache_folder

_FETCHED_IN_S = 600


def connector_settings(options: KafkaOptions, spark_version: str) -> dict[str, str]:
    """What a session that reads Kafka is configured with; the jars are fetched where they are not set."""
    if options.spark_jars == PROVIDED:
        return {}
    jars = options.spark_jars or ",".join(map(str, connector_jars(spark_version)))
    return {"spark.jars": jars}


def connector_jars(spark_version: str) -> list[Path]:
    """The jars for `spark.jars`; raises SparkUnusable when they are neither cached nor can be fetched."""
    connector = connector_of(spark_version)
    target = cache_folder() / "spark-kafka" / f"{connector.source}-{connector.tokens}-{connector.clients}"
    if not target.is_dir():
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.with_name(f"{target.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not target.is_dir():  # Another process may have fetched them meanwhile.
                _fetch(connector, target)
    return sorted(target.glob("*.jar"))


def _fetch(connector: KafkaConnector, target: Path) -> None:
    """The folder appears whole or not at all."""
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="fetching-") as folder:
        done = subprocess.run(  # noqa: S603 - this interpreter and this module
            [sys.executable, "-m", __name__, folder, *connector.coordinates],
            capture_output=True,
            text=True,
            timeout=_FETCHED_IN_S,
            check=False,
        )
        made = Path(folder, "jars")
        if done.returncode != 0 or len(list(made.glob("*.jar"))) != len(connector.coordinates):
            remedy = f"fetch {', '.join(connector.coordinates)} and set DRIFTQ_SPARK_KAFKA_JARS to the files"
            raise SparkUnusable("Spark's Kafka connector could not be fetched", remedy=remedy)
        made.rename(target)


def fetch(folder: str, coordinates: Sequence[str]) -> None:
    """In a process of its own: let Spark's resolver put each artifact into FOLDER/jars."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]").config("spark.jars.ivy", folder)
    spark = builder.config("spark.ui.enabled", "false").getOrCreate()
    for artifact in coordinates:
        spark.sql(f"ADD JAR 'ivy://{artifact}?transitive=false'")
    spark.stop()


if __name__ == "__main__":
    fetch(sys.argv[1], sys.argv[2:])
