"""`driftq pipeline`: run jobs on Spark, show their progress, read their tables."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from driftq.cli.screen import Json, Url, examples, say, say_aside, say_error, say_json, show, show_or, table
from driftq.cli.stores import Data, require_folder
from driftq.cli.targets import Sinks, pipeline_options

if TYPE_CHECKING:
    from driftq.model.options.pipeline import PipelineOptions
    from driftq.pipeline.app.plan import PlanStep
    from driftq.pipeline.bridge.route import BridgeRoute
    from driftq.pipeline.runtime.reports import DriverSpec

app = typer.Typer(
    help="Run the Spark pipeline, show its progress, read its tables.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

AppFile = Annotated[
    str | None,
    typer.Option("--app", metavar="FILE.py", help="The file with your handlers and projections."),
]
File = Annotated[str, typer.Argument(metavar="FILE.py", help="A file that defines an app.")]
_NEED_ONLY_A_SERVER = frozenset({"publisher", "projection", "rebuild"})
"""Built-in jobs that need a server and nothing else: it is checked before a driver starts."""
_PROJECTS = frozenset({"projection", "rebuild"})
"""Built-in jobs that write read models."""


@app.command(
    epilog=examples(
        "driftq pipeline run publisher projection --once",
        "driftq pipeline run projection --sink parquet:///srv/read_models",
        "driftq pipeline run app.py",
        "driftq pipeline run bridge --from driftq:orders --to kafka:orders",
    )
)
def run(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="JOB…|FILE.py",
            help="publisher, worker, projection, rebuild, compact, bridge, one or more; or your own file.",
        ),
    ],
    app_file: AppFile = None,
    name: Annotated[
        str | None, typer.Option("--name", metavar="N", help="Only this handler or projection.")
    ] = None,
    master: Annotated[
        str | None, typer.Option("--master", metavar="URL", help="Where Spark runs (else local[*]).")
    ] = None,
    archive: Annotated[
        str | None,
        typer.Option(
            "--archive", metavar="FILE", help="Packages for the executors, made by driftq pipeline package."
        ),
    ] = None,
    conf: Annotated[
        list[str] | None,
        typer.Option("--conf", metavar="NAME=VALUE", help="A setting of Spark; may be repeated."),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option("--from", metavar="SYSTEM:TOPIC", help="What a bridge copies: driftq:T or kafka:T."),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option("--to", metavar="SYSTEM:TOPIC", help="Where a bridge copies to: kafka:T or driftq:T."),
    ] = None,
    sinks: Sinks = None,
    once: Annotated[bool, typer.Option("--once", help="Process what is there now, then exit.")] = False,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            "--metrics-port", min=0, max=65535, help="Serve metrics on this port; 0 takes a free one."
        ),
    ] = None,
    url: Url = None,
    data: Data = None,
) -> None:
    """Run jobs on Spark until SIGTERM or Ctrl-C. With --once, until nothing is left to process."""
    from driftq.pipeline.runtime.reports import DriverSpec

    _check(what)
    if sinks and not any(job in _PROJECTS or job.endswith(".py") for job in what):
        raise typer.BadParameter("--sink is for projections: driftq pipeline run projection …")
    assignment = DriverSpec(
        what=tuple(what),
        options=pipeline_options(url, data, sinks),
        once=once,
        app=app_file,
        name=name,
        master=master,
        route=_route(what, source, target),
        conf=_conf(archive, conf or ()),
    )
    if app_file is None and set(what) <= _NEED_ONLY_A_SERVER:
        _require_spark_and_server(assignment.options)
    raise typer.Exit(_supervise(assignment, metrics_port))


@app.command(epilog=examples("driftq pipeline package driftq_libs.tar.gz"))
def package(
    file: Annotated[str, typer.Argument(metavar="FILE.tar.gz", help="The archive to write.")],
    as_json: Json = False,
) -> None:
    """Pack DriftQ and what it imports for the executors of a cluster."""
    from driftq.errors import SparkUnusable
    from driftq.pipeline.spark.package import write_package

    if not file.endswith((".tar.gz", ".tgz")):
        raise typer.BadParameter(f"{file}: Spark unpacks archives by their ending, so name it .tar.gz")
    try:
        made = write_package(Path(file))
    except (SparkUnusable, OSError) as refused:
        say_error(str(refused))
        raise typer.Exit(1) from None
    if as_json:
        say_json({"file": file, "bytes": made.bytes, "distributions": made.distributions})
    else:
        size = made.bytes / 1e6
        say(f"{file}: {len(made.distributions)} packages, {size:.0f} MB. Run jobs with --archive {file}")


@app.command(epilog=examples("driftq pipeline status"))
def status(url: Url = None, data: Data = None, as_json: Json = False) -> None:
    """Show the progress of each job: last batch, rows, lag, checkpoint."""
    import msgspec

    from driftq.pipeline.runtime.status import StatusFolder

    require_folder(data)
    jobs = StatusFolder(pipeline_options(url, data).folder).all()
    if as_json:
        say_json({"jobs": msgspec.to_builtins(jobs)})
        return
    names = ("job", "state", "last batch", "rows", "rows/s", "lag", "at", "checkpoint")
    right = frozenset({"last batch", "rows", "rows/s", "lag"})
    listed = table("jobs", *names, right=right)
    for job in jobs:
        batch, lag = ("-" if number is None else f"{number:,}" for number in (job.last_batch, job.lag))
        done = f"{job.rows:,}", f"{job.rows_per_second:,.0f}"
        state = "target away" if job.is_away else job.state
        listed.add_row(job.job, state, batch, *done, lag, job.updated_at[:19], job.checkpoint or "-")
    show_or(listed, "no job has run here yet; start some with: driftq pipeline run publisher projection")
    for job in jobs:
        for note in job.notes():
            say(f"{job.job}: {note}")


@app.command(
    epilog=examples(
        "driftq pipeline rows latest --json",
        "driftq pipeline rows latest --sink sqlite:///driftq-data/pipeline/read_models.db",
    )
)
def rows(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The projection, such as latest.")],
    app_file: AppFile = None,
    sink: Annotated[
        str | None,
        typer.Option("--sink", metavar="URL", help="The target to read (else that of the projection)."),
    ] = None,
    url: Url = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Print a read model, row by row."""
    from driftq.errors import DriftQError, SchemaError
    from driftq.pipeline.app.builtin import sink_of
    from driftq.pipeline.app.file import AppNotUsable
    from driftq.pipeline.read_model import rows as rows_of

    options = pipeline_options(url, data, None if sink is None else [sink])
    try:
        found = rows_of(options, name, sink=None if app_file is None else sink_of(app_file, name, options))
        if as_json:
            for row in found:
                say_json(row)
        else:
            _show_rows(name, found)
    except (AppNotUsable, DriftQError, SchemaError) as refused:
        say_error(str(refused))
        raise typer.Exit(1) from None


@app.command(epilog=examples("driftq pipeline plan app.py"))
def plan(file: File, as_json: Json = False) -> None:
    """Show what an app reads, does and writes, without running it."""
    import msgspec

    from driftq.pipeline.app.file import AppNotUsable, load_app_file
    from driftq.pipeline.app.plan import plan_of

    try:
        steps = plan_of(load_app_file(file).require_app())
    except AppNotUsable as refused:
        say_error(str(refused))
        raise typer.Exit(1) from None
    if as_json:
        say_json({"file": file, "jobs": msgspec.to_builtins(steps)})
    else:
        _draw(file, steps)


def _show_rows(name: str, found: Iterator[dict[str, Any]]) -> None:
    listed = table(name, "aggregate type", "aggregate id", "seq", "state", right=frozenset({"seq"}))
    for row in found:
        state = json.dumps(row["state"], ensure_ascii=False, separators=(",", ":"))
        listed.add_row(row["aggregate_type"], row["aggregate_id"], str(row["sequence_number"]), state)
    show_or(listed, f"read model {name} has no rows")


def _draw(file: str, steps: Sequence[PlanStep]) -> None:
    drawn = table(file, "reads", "", "job", "does", "", "writes")
    for step in steps:
        reads, writes = "\n".join(step.sources), "\n".join(step.sinks)
        manner = ", ".join(one for one in (step.effect, step.gap_policy) if one)
        does = f"{step.does} ({manner})" if manner else step.does
        drawn.add_row(reads, "→", step.job, does, "→", writes)
    show(drawn)


def _supervise(assignment: DriverSpec, metrics_port: int | None) -> int:
    from driftq.cli.loglines import log_to_stderr
    from driftq.cli.pipeline_lines import lines_for
    from driftq.pipeline.runtime.metrics import serve_metrics
    from driftq.pipeline.runtime.status import StatusFolder
    from driftq.pipeline.runtime.supervisor import Supervisor

    options = assignment.options
    log_to_stderr()
    log = Path(options.folder, "logs", "+".join(Path(one).stem for one in assignment.what) + ".log")
    if metrics_port is not None:
        port, _ = serve_metrics(StatusFolder(options.folder), metrics_port)
        say_aside(f"metrics on http://127.0.0.1:{port}/metrics")
    size = _size(log)
    with lines_for(options.publisher.metrics_interval_seconds) as lines:
        code = Supervisor(assignment, lines.hear, log=log).run()
    if code != 0 and _size(log) > size:
        say_aside(f"the output of Spark is in {log}")
    return code


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def _require_spark_and_server(options: PipelineOptions) -> None:
    """Check what a driver needs before one is started: a start takes seconds."""
    from driftq.errors import ServerUnreachable, SparkUnusable
    from driftq.pipeline.spark.java import require_spark
    from driftq.transport.server import check_server

    try:
        require_spark()
        check_server(options.url, options.credentials)
    except (ServerUnreachable, SparkUnusable) as refused:
        say_error(str(refused))
        raise typer.Exit(1) from None


def _conf(archive: str | None, given: Sequence[str]) -> dict[str, str]:
    from driftq.pipeline.spark.package import package_settings

    if archive is not None and "://" not in archive and not Path(archive).is_file():
        raise typer.BadParameter(f"--archive: there is no file {archive}")
    conf = {} if archive is None else package_settings(archive)
    for one in given:
        name, equals, value = one.partition("=")
        if not equals or not name.startswith("spark."):
            raise typer.BadParameter(f"--conf {one}: write it as spark.NAME=VALUE")
        conf[name] = value
    return conf


def _check(what: Sequence[str]) -> None:
    from driftq.pipeline.app.builtin import SHIPPED

    files = [one for one in what if one not in SHIPPED]
    if not files or (len(what) == 1 and files[0].endswith(".py")):
        return
    if files[0].endswith(".py"):
        raise typer.BadParameter(
            f"{files[0]}: a file runs alone; to pass it to built-in jobs use --app {files[0]}"
        )
    raise typer.BadParameter(
        f"there is no job {files[0]!r}: name one of {', '.join(SHIPPED)}, or a file ending in .py"
    )


def _route(what: Sequence[str], source: str | None, target: str | None) -> BridgeRoute | None:
    from driftq.errors import InvalidArgument
    from driftq.pipeline.app.builtin import BRIDGE
    from driftq.pipeline.bridge.route import parse_route

    if BRIDGE not in what:
        if source is not None or target is not None:
            raise typer.BadParameter("--from and --to are for a bridge: driftq pipeline run bridge …")
        return None
    if list(what).count(BRIDGE) > 1:
        raise typer.BadParameter("a run has one bridge: start another run for another route")
    try:
        return parse_route(source, target)
    except InvalidArgument as refused:
        raise typer.BadParameter(str(refused)) from None
