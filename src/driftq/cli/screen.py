"""How the commands print: results on stdout, everything else on stderr, JSON for scripts."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.table import Table

Url = Annotated[
    str | None,
    typer.Option("--url", metavar="URL", help="The server (else DRIFTQ_URL, else http://127.0.0.1:8080)."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


def examples(*commands: str) -> str:
    """The end of a command's help: commands that work as they are."""
    return "\n".join(
        ("\b", "Examples:" if len(commands) > 1 else "Example:", *(f"  {item}" for item in commands))
    )


def say(text: str) -> None:
    """A result."""
    typer.echo(text)


def say_json(value: Any) -> None:
    typer.echo(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def say_error(text: str) -> None:
    typer.echo(f"error: {text}", err=True)


def say_aside(text: str) -> None:
    """A note for people, not for scripts."""
    typer.echo(text, err=True)


def confirm(question: str, *, yes: bool) -> None:
    """Continue only after a yes, by --yes or at the terminal; without a terminal, exit with code 1."""
    if yes:
        return
    if not sys.stdin.isatty():
        say_error(f"{question} There is no terminal to ask at: repeat the command with --yes")
        raise typer.Exit(1)
    if not typer.confirm(question, err=True):
        say_aside("nothing was changed")
        raise typer.Exit(1)


def on_terminal() -> bool:
    """Whether stderr, where progress is shown, is a terminal."""
    return sys.stderr.isatty()


def table(title: str, *columns: str, right: frozenset[str] = frozenset()) -> Table:
    """An empty table; columns named in `right` hold numbers."""
    from rich import box
    from rich.table import Table

    made = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        made.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return made


def show(*shown: Table) -> None:
    """Tables as wide as the terminal; not cut off where there is none."""
    from rich.console import Console

    console = Console(highlight=False, width=None if sys.stdout.isatty() else 200)
    for item in shown:
        console.print(item)


def show_or(made: Table, nothing: str) -> None:
    """The table, or a sentence where it would be empty."""
    if made.row_count:
        show(made)
    else:
        say(nothing)
