"""`driftq worker` and `driftq job work`: run a worker that a module defines, until SIGTERM or Ctrl-C."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from driftq.cli.loglines import LogFormat, LogLevel, log_to_stderr, traced_as
from driftq.cli.screen import examples, say_aside, say_error
from driftq.errors import DriftQError

if TYPE_CHECKING:
    from driftq.worker import Jobs, Worker

App = Annotated[
    str,
    typer.Argument(metavar="MODULE:APP", help="A driftq.Worker or driftq.Jobs, like billing:worker."),
]


WORKER_EXAMPLES = examples("driftq worker billing:worker")
WORK_EXAMPLES = examples("driftq job work mailing:jobs")


class WorkerModuleUnusable(Exception):
    """The named worker cannot be run; the text says why."""


def worker(app: App, log_level: LogLevel = None, log_format: LogFormat = None) -> None:
    """Run the handlers of a worker until SIGTERM or Ctrl-C."""
    from driftq.worker import Worker

    log_to_stderr(log_level, log_format)
    with traced_as("driftq-worker"):
        code = _run(app, Worker)
    raise typer.Exit(code)


def work(app: App, log_level: LogLevel = None, log_format: LogFormat = None) -> None:
    """Run jobs until SIGTERM or Ctrl-C."""
    from driftq.worker import Jobs

    log_to_stderr(log_level, log_format)
    with traced_as("driftq-jobs"):
        code = _run(app, Jobs)
    raise typer.Exit(code)


def _run(name: str, kind: type[Worker | Jobs]) -> int:
    try:
        found = load_app(name, kind)
    except WorkerModuleUnusable as refused:
        say_error(f"{name}: {refused}")
        return 1

    def stop(*_: object) -> None:
        found.ask_to_stop()

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        found.start()
        say_aside(f"{name} is running; press Ctrl-C to stop it")
        found.run()
    except DriftQError as failure:
        say_error(failure.message)
        return 1
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return 0


def load_app(name: str, kind: type[Any]) -> Any:
    """The worker with this name; modules are also searched in the current directory."""
    module_name, colon, attribute = name.partition(":")
    if not colon or not module_name or not attribute:
        raise WorkerModuleUnusable("give it as module:app, like billing:worker")
    folder = os.getcwd()
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as missing:
        raise WorkerModuleUnusable(f"there is no module {missing.name!r}") from missing
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise WorkerModuleUnusable(f"module {module_name!r} has no {attribute!r}")
        found = getattr(found, part)
    if not isinstance(found, kind):
        raise WorkerModuleUnusable(f"{attribute!r} is a {type(found).__name__}, not a {kind.__name__}")
    return found
