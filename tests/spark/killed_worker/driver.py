"""`python driver.py URL FOLDER POSTGRES_URL`: a Spark driver that runs a crew of workers, once.

The crew is one job whose task works for all sites at a time, each in a thread: so a busy machine has to
start one query and one Python worker, and not one of each for every site.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from driftq.pipeline import WorkerSpec, open_session
from driftq.pipeline.worker.job import WorkerJob
from driftq.pipeline.worker.task import Task
from driftq.settings import load_settings
from tests.spark.killed_worker.handlers import TOPIC, Site, sites

if TYPE_CHECKING:
    import pyarrow as arrow


def run_all(batches: Iterable[arrow.RecordBatch], *, tasks: list[Task]) -> Iterator[arrow.RecordBatch]:
    rows = list(batches)
    with ThreadPoolExecutor(len(tasks)) as threads:
        for answers in threads.map(lambda task: list(task(rows)), tasks):
            yield from answers


class Crew(WorkerJob):
    """The first of them, as far as Spark knows."""

    def __init__(self, jobs: list[WorkerJob]) -> None:
        super().__init__(jobs[0].spec, jobs[0].options)
        self._jobs = jobs

    def task(self, identities: Mapping[str, str]) -> Task:
        return partial(run_all, tasks=[job.task(identities) for job in self._jobs])

    def take_up_parked(self, *, everything: bool = False) -> None:
        for job in self._jobs:
            job.take_up_parked(everything=everything)


def main(url: str, folder: Path, postgres_url: str) -> None:
    def job(site: Site) -> WorkerJob:
        on_postgres = {"DRIFTQ_DATABASE_URL": postgres_url} if site.engine == "postgres" else {}
        options = load_settings(environ=os.environ | on_postgres).pipeline(url=url, data=site.folder)
        spec = WorkerSpec(name=site.name, call=site, topics=(TOPIC,), effect=site.effect, sinks=site.sinks())
        return WorkerJob(spec, options)

    crew = Crew([job(site) for site in sites(folder)])
    spark = open_session(crew.options, master="local[2]")
    crew.start(spark, once=True).awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
