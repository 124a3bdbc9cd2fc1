"""`python driver.py URL FOLDER POSTGRES_URL`: a Spark driver with a worker on each site, once.

All of them are fed by one query that reads each batch once, so that a busy machine has less to start.
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from driftq.pipeline import WorkerSpec, open_session
from driftq.pipeline.worker.job import WorkerJob
from driftq.settings import load_settings
from tests.acceptance.spark_worker.handlers import TOPIC, Site, sites

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def main(url: str, folder: Path, postgres_url: str) -> None:
    def job(site: Site) -> WorkerJob:
        on_postgres = {"DRIFTQ_DATABASE_URL": postgres_url} if site.name.endswith("postgres") else {}
        options = load_settings(environ=os.environ | on_postgres).pipeline(url=url, data=site.folder)
        return WorkerJob(WorkerSpec(name=site.name, call=site, topics=(TOPIC,), effect=site.effect), options)

    jobs = [job(site) for site in sites(folder)]
    for one in jobs:
        one.take_up_parked()
    spark = open_session(jobs[0].options, master=f"local[{len(jobs)}]")

    def handle(rows: DataFrame, batch_id: int) -> None:
        read = spark.createDataFrame(rows.collect(), rows.schema).coalesce(1)
        with ThreadPoolExecutor(len(jobs)) as threads:
            list(threads.map(lambda one: one.handle_batch(read, batch_id), jobs))

    writer = jobs[0].rows(spark).writeStream.foreachBatch(handle)
    query = writer.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start()
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
