"""A driver that copies a topic into another, in small batches, until it has caught up or is killed.

python -m tests.spark_versions.copying URL FROM TO CHECKPOINT
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

from driftq.pipeline.source.pinned import PinnedEnd
from tests.spark.waiting import run_to_end

BATCH_MESSAGES = 20


def main(url: str, source: str, target: str, checkpoint: str) -> None:
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.python.authenticate.socketTimeout", "120s")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    reading = spark.readStream.format("driftq").options(
        url=url, subscribe=source, maxOffsetsPerTrigger=str(BATCH_MESSAGES)
    )
    writing = reading.load().select("key", "value").writeStream.format("driftq").queryName("copying")
    writing = writing.options(url=url, topic=target, partitions="2", checkpointLocation=checkpoint)
    # A run that only repeats the batch of a killed one tells no lag: where it ended tells what is left.
    pinned = PinnedEnd()
    while not pinned.reached_by(run_to_end(writing.trigger(availableNow=True).start)):
        pass
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
