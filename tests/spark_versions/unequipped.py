"""A driver whose tasks run a Python without DriftQ; it prints how reading and writing a topic fail.

python -m tests.spark_versions.unequipped URL TOPIC PYTHON FOLDER
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession


def main(url: str, topic: str, python: str, folder: str) -> None:
    os.environ["PYSPARK_PYTHON"] = python
    os.environ.pop("PYTHONPATH", None)
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.python.authenticate.socketTimeout", "120s")
        .config("spark.sql.warehouse.dir", folder)
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    rows = spark.read.format("driftq").options(url=url, subscribe=topic).load()
    print(failure(rows.count))
    print("=== written")
    numbers = spark.range(3).selectExpr("CAST(id AS STRING) AS value")
    print(failure(numbers.write.format("driftq").options(url=url, topic=topic).mode("append").save))
    spark.stop()


def failure(action: Callable[[], Any]) -> str:
    try:
        action()
    except PySparkException as failed:
        return str(failed)
    return "it did not fail"


if __name__ == "__main__":
    main(*sys.argv[1:])
