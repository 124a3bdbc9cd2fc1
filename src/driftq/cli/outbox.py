"""`driftq outbox`: the tables in your own database, the relay that sends their rows, and what it parked."""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from driftq.cli.screen import Json, Url, examples, say, say_aside, say_error, say_json, show_or, table
from driftq.errors import OutboxMissing
from driftq.settings import load_url

if TYPE_CHECKING:
    from driftq.outbox import Outbox

app = typer.Typer(
    help="Send what applications wrote in their own transactions.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Database = Annotated[
    str,
    typer.Option("--database", metavar="URL", help="The database: postgresql://… or sqlite:///PATH."),
]


@contextmanager
def _outbox(database: str, url: str | None = None, *, name: str | None = None) -> Iterator[Outbox]:
    from driftq.client import Client
    from driftq.outbox import Outbox

    with Client(load_url(url)) as client:
        outbox = Outbox(database, client, name=name)
        try:
            yield outbox
        except OutboxMissing as missing:
            say_error(str(missing))
            raise typer.Exit(1) from None
        finally:
            outbox.close()


@app.command(
    epilog=examples(
        "driftq outbox init --database sqlite:///shop.db",
        "driftq outbox init --database postgresql://shop@127.0.0.1/shop --sql",
    )
)
def init(
    database: Database,
    sql: Annotated[bool, typer.Option("--sql", help="Print the DDL and change nothing.")] = False,
) -> None:
    """Make the tables of the outbox where they are missing."""
    from driftq.outbox import ddl

    if sql:
        say(ddl("sqlite" if database.startswith("sqlite") else "postgresql"))
        return
    with _outbox(database) as outbox:
        outbox.create()
    say("the outbox is ready")


@app.command(
    epilog=examples(
        "driftq outbox run --database postgresql://shop@127.0.0.1/shop",
        "driftq outbox run --database sqlite:///shop.db --once",
    )
)
def run(
    database: Database,
    once: Annotated[bool, typer.Option("--once", help="End when no row is left.")] = False,
    name: Annotated[
        str | None,
        typer.Option("--name", help="The outbox's name in the dashboard (else made of its database's)."),
    ] = None,
    url: Url = None,
) -> None:
    """Send rows until SIGTERM or Ctrl-C. A second relay waits and takes over."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    with _outbox(database, url, name=name) as outbox:

        def stop(*_: object) -> None:
            outbox.stop()

        before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            if not once:
                say_aside("the relay is running; press Ctrl-C to stop it")
            sent = outbox.run(once=once)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
    say(f"{sent} rows sent")


@app.command(epilog=examples("driftq outbox status --database sqlite:///shop.db"))
def status(database: Database, as_json: Json = False) -> None:
    """Show how many rows wait and are parked, how old the oldest is, and which relay runs."""
    with _outbox(database) as outbox:
        found = outbox.status()
    if as_json:
        say_json(_plain(found))
        return
    relay = f"relay {found.owner}" if found.running else "no relay runs"
    say(
        f"{found.waiting} rows wait, the oldest for {found.oldest_age_ms / 1000:.1f} s; "
        f"{found.parked} are parked; position {found.last_position}; {relay}"
    )


@app.command("list", epilog=examples("driftq outbox list --database sqlite:///shop.db"))
def list_parked(
    database: Database,
    limit: Annotated[int, typer.Option("--limit", min=1, help="The maximum number of rows.")] = 100,
    after: Annotated[int, typer.Option("--after", help="Only rows after this one.")] = 0,
    as_json: Json = False,
) -> None:
    """List parked rows: those that the server refused, and those that wait behind them."""
    with _outbox(database) as outbox:
        found = outbox.parked(limit=limit, after=after)
    if as_json:
        say_json({"rows": _plain(found)})
        return
    listed = table("parked rows", "row", "kind", "target", "key", "error", right=frozenset({"row"}))
    for row in found:
        listed.add_row(str(row.id), row.kind, row.target, row.key or "-", row.error)
    show_or(listed, "no rows are parked")


@app.command(epilog=examples("driftq outbox retry --all --database sqlite:///shop.db"))
def retry(
    database: Database,
    row: Annotated[int | None, typer.Argument(metavar="ROW", help="The row, with those behind it.")] = None,
    all_rows: Annotated[bool, typer.Option("--all", help="All parked rows.")] = False,
) -> None:
    """Let the relay send parked rows again."""
    if (row is None) != all_rows:
        raise typer.BadParameter("give either ROW or --all")
    with _outbox(database) as outbox:
        count = outbox.retry(row)
    say(f"{count} rows will be sent again")
    if row is not None and not count:
        raise typer.Exit(1)


def _plain(found: object) -> Any:
    """For JSON; msgspec is loaded only here, because help needs none of it."""
    import msgspec

    return msgspec.to_builtins(found)
