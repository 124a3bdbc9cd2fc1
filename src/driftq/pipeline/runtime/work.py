"""One run of the pipeline inside its driver: read the app, open Spark, run the jobs, close Spark."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from driftq.errors import InvalidArgument
from driftq.model.options.pipeline import KAFKA
from driftq.pipeline.app.builtin import SHIPPED, Job, is_stream, jobs_for, jobs_of_app
from driftq.pipeline.app.file import AppFile, load_app_file
from driftq.pipeline.runtime.posting import ProgressPoster
from driftq.pipeline.runtime.preflight import check_reach
from driftq.pipeline.runtime.progress import ProgressTracker, listen
from driftq.pipeline.runtime.reports import DriverSpec, Reporter
from driftq.pipeline.runtime.runner import Runner
from driftq.pipeline.runtime.status import StatusFolder
from driftq.pipeline.spark.java import require_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Stopping(Protocol):
    """Whether a stop was requested; also interrupts the main thread while `interrupts` is set."""

    interrupts: bool

    def __call__(self) -> bool: ...


def do_work(assignment: DriverSpec, reporter: Reporter, stopping: Stopping) -> None:
    """The whole run. Raises AppNotUsable, a DriftQError or PipelineJobFailed with a readable text."""
    stopping.interrupts = True
    require_spark()
    file, jobs = _jobs(assignment)
    if not assignment.restarting:  # Later the jobs themselves wait for an unavailable server or database.
        check_reach(jobs, assignment.options)
    spark = _open(assignment, file, jobs)
    try:
        if file is not None and file.main is not None and not jobs:
            file.main(spark)
        else:
            _run(spark, jobs, assignment, reporter, stopping)
    finally:
        stopping.interrupts = False
        with suppress(Exception):  # Its JVM is ended by the supervisor in any case.
            spark.stop()


def _jobs(assignment: DriverSpec) -> tuple[AppFile | None, list[Job]]:
    """The user's file, if there is one, and the jobs to run; none when the file has a `main` of its own."""
    options = assignment.options
    if assignment.what[0] not in SHIPPED:
        file = load_app_file(assignment.what[0])
        if file.main is not None:
            return file, []
        return file, jobs_of_app(file.require_app(), options, name=assignment.name)
    given = None if assignment.app is None else load_app_file(assignment.app)
    app = None if given is None else given.require_app()
    return given, jobs_for(assignment.what, options, app=app, name=assignment.name, route=assignment.route)


def _open(assignment: DriverSpec, file: AppFile | None, jobs: list[Job]) -> SparkSession:
    from driftq.pipeline.spark.session import open_session

    title = "driftq " + " ".join(assignment.what)
    on_kafka = assignment.options.transport == KAFKA
    reads_kafka = any(
        getattr(job, "reads_kafka", on_kafka and getattr(job, "reads_transport", True)) for job in jobs
    )
    spark = open_session(
        assignment.options,
        master=assignment.master,
        app_name=title,
        reads_kafka=reads_kafka,
        conf=assignment.conf,
    )
    if file is not None:
        spark.sparkContext.addPyFile(str(file.path))  # Workers on other machines import it by its name.
    return spark


def _run(
    spark: SparkSession, jobs: list[Job], assignment: DriverSpec, reporter: Reporter, stopping: Stopping
) -> None:
    options = assignment.options
    with ProgressPoster(options) as poster:
        progress = ProgressTracker(
            StatusFolder(options.folder), reporter, checkpoint=options.checkpoint, post=poster.hear
        )
        listen(spark, progress)
        _run_jobs(Runner(spark, progress, reporter, stop=stopping), jobs, assignment, stopping)


def _run_jobs(runner: Runner, jobs: list[Job], assignment: DriverSpec, stopping: Stopping) -> None:
    ends = [job for job in jobs if not is_stream(job)]
    if assignment.once or len(ends) == len(jobs):
        stopping.interrupts = bool(ends)  # A query is stopped in an orderly way.
        runner.run_once(jobs)
    elif ends:
        raise InvalidArgument("--once", f"{ends[0].name} is a task that ends: pass --once, or run it alone")
    else:
        stopping.interrupts = False
        runner.run_on([job for job in jobs if is_stream(job)], patient=assignment.restarting)
