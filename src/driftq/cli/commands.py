"""What every command has: the options of `driftq` itself, and the one place where errors become a line."""

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from driftq.cli.screen import examples, say_aside, say_error
from driftq.cli.version import show_version
from driftq.errors import CertificateUnusable, DriftQError, KeysFileUnusable, ServerUnreachable
from driftq.settings import SettingsRefused


class Commands(TyperGroup):
    """Prints expected errors as a line; a traceback is for bugs."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except SettingsRefused as refused:
            for problem in refused.problems:
                say_error(str(problem))
        except ServerUnreachable as unreachable:
            from driftq.cli.hints import way_to_a_server  # Hints are for what has failed.

            say_error(unreachable.message)
            say_error(way_to_a_server(unreachable))
        except (KeysFileUnusable, CertificateUnusable) as unusable:
            say_error(str(unusable))
        except DriftQError as refused:
            say_error(f"{refused.message} ({refused.code})")
            from driftq.cli.hints import hint_for

            if hint := hint_for(refused):
                say_aside(f"hint: {hint}")
        except KeyboardInterrupt:
            say_aside("interrupted")
            raise typer.Exit(130) from None
        except BrokenPipeError:
            pass  # The reader of the output has closed it.
        raise typer.Exit(1)


def options(
    _: Annotated[
        bool,
        typer.Option("--version", callback=show_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """DriftQ: a durable message broker in one process and one folder."""


def new_app() -> typer.Typer:
    """`driftq` without its commands."""
    app = typer.Typer(
        cls=Commands,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(
        epilog=examples("driftq serve", "driftq topic create orders", 'driftq produce orders "two coffees"')
        + "\n\nEach command has examples of its own: driftq COMMAND --help"
    )(options)
    return app
