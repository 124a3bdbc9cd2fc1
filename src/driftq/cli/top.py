"""`driftq top`: a server at work, in the terminal: topics, groups, queues, dead letters and commits."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Annotated

import typer

from driftq.cli.connection import Connection
from driftq.cli.screen import Url, examples
from driftq.cli.top_view import ROWS, Scrape, read_scrape, view
from driftq.errors import ServerUnreachable, Unavailable
from driftq.settings import load_url

TOP_EXAMPLES = examples("driftq top", "driftq top --interval 1 --rows 30", "driftq top --once")
METRICS = "/v1/metrics"

Wait = Callable[[float], bool]


def top(
    url: Url = None,
    interval: Annotated[
        float, typer.Option("--interval", min=0.2, metavar="SECONDS", help="The time between two looks.")
    ] = 2.0,
    rows: Annotated[
        int, typer.Option("--rows", min=1, help="The most topics, groups and queues to show.")
    ] = ROWS,
    once: Annotated[
        bool, typer.Option("--once", help="Print the tables once and exit; without rates.")
    ] = False,
) -> None:
    """Watch a server in the terminal, until Ctrl-C.

    It shows rates, lag, jobs, dead letters and commits, from the server's metrics: where the server has keys,
    that needs the role read. Where the output is not a terminal, it prints the tables once.
    """
    with Connection(load_url(url)) as connection:
        if once or not sys.stdout.isatty():
            _print(look(connection), rows=rows)
        else:
            _watch(connection, interval=interval, rows=rows, wait=threading.Event().wait)


def look(connection: Connection) -> Scrape:
    """One scrape of the server."""
    return read_scrape(connection.text(METRICS), at=time.monotonic())


def _print(scrape: Scrape, *, rows: int) -> None:
    from rich.console import Console

    Console(highlight=False, width=None if sys.stdout.isatty() else 200).print(view(scrape, None, rows=rows))


def _watch(connection: Connection, *, interval: float, rows: int, wait: Wait) -> None:
    """Redraw after each interval; a server that is away for a while is waited for."""
    from rich.console import Console, Group
    from rich.live import Live
    from rich.text import Text

    scrape, before = look(connection), None
    with Live(view(scrape, None, rows=rows), console=Console(), screen=True, auto_refresh=False) as live:
        while not wait(interval):
            try:
                scrape, before = look(connection), scrape
            except (ServerUnreachable, Unavailable) as away:
                note = Text(f"{away.message}; trying again every {interval:g} s", style="bold")
                live.update(Group(note, view(scrape, before, rows=rows)), refresh=True)
            else:
                live.update(view(scrape, before, rows=rows), refresh=True)
