"""A client of a Spark Connect server on this machine: it reads and copies a topic, and runs a projection.

python -m tests.spark_versions.connected URL TOPIC CHECKPOINT
"""

from __future__ import annotations

import sys

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from driftq.errors import SparkUnusable
from driftq.pipeline import Projection, register

STARTS_MAX = 5


def main(url: str, topic: str, checkpoint: str) -> None:
    spark = SparkSession.builder.remote("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    rows = spark.read.format("driftq").options(url=url, subscribe=topic).load()
    print("read", rows.count())
    register(spark)
    stream = spark.readStream.format("driftq").options(url=url, subscribe=topic).load()
    writing = stream.select("key", "value").writeStream.format("driftq").trigger(availableNow=True)
    writing = writing.options(url=url, topic=f"{topic}-copy", checkpointLocation=checkpoint)
    for starts_left in reversed(range(STARTS_MAX)):
        try:
            query = writing.start()
            query.awaitTermination(240)
            break
        except PySparkException as failed:
            if "failed to connect back" not in str(failed) or not starts_left:
                raise
    copied = spark.read.format("driftq").options(url=url, subscribe=f"{topic}-copy").load()
    print("streamed", copied.count())
    try:
        Projection("connected", topic=topic).run(spark, once=True)
    except SparkUnusable as refused:
        print(refused.remedy)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
