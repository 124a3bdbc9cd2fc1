"""The commands put together, and the one place where their failures become a line and an exit code."""

from typing import Any

import typer
from typer.core import TyperGroup

from driftq.cli import db, dlq, event, group, job, pipeline, registry, topic
from driftq.cli.config import config
from driftq.cli.connection import ServerRefused, ServerUnreachable
from driftq.cli.consume import consume
from driftq.cli.doctor import backup, doctor, restore
from driftq.cli.explain import explain
from driftq.cli.produce import produce
from driftq.cli.screen import say_error
from driftq.cli.serve import serve
from driftq.cli.settle import ack, nack
from driftq.cli.version import version
from driftq.cli.worker import work, worker
from driftq.settings import SettingsRefused


class Commands(TyperGroup):
    """Shows what was refused in words; a traceback is for mistakes of ours."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except SettingsRefused as refused:
            for problem in refused.problems:
                say_error(str(problem))
        except ServerRefused as refused:
            say_error(f"{refused.message} ({refused.error})")
        except ServerUnreachable as unreachable:
            say_error(f"no DriftQ server answers at {unreachable.url}: {unreachable.cause}")
            say_error("start one with `driftq serve`, or name another with --url or DRIFTQ_URL")
        except BrokenPipeError:
            pass  # Whoever read our output has seen enough.
        raise typer.Exit(1)


app = typer.Typer(
    cls=Commands,
    help="DriftQ: a durable message broker in one process and one folder.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("serve")(serve)
app.add_typer(topic.app, name="topic")
app.add_typer(group.app, name="group")
app.command("produce")(produce)
app.command("consume")(consume)
app.command("ack")(ack)
app.command("nack")(nack)
app.add_typer(dlq.app, name="dlq")
job.app.command("work")(work)
app.add_typer(job.app, name="job")
app.command("worker")(worker)
app.command("explain")(explain)
app.add_typer(event.app, name="event")
app.add_typer(pipeline.app, name="pipeline")
app.add_typer(registry.app, name="registry")
app.add_typer(db.app, name="db")
app.command("config")(config)
app.command("doctor")(doctor)
app.command("backup")(backup)
app.command("restore")(restore)
app.command("version")(version)
