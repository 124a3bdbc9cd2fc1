"""`driftq registry`: list the claims of handlers, requeue dead ones, resolve unknown effects."""

from __future__ import annotations

import getpass
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from driftq.cli.screen import Json, examples, say, say_error, say_json, show_or, table
from driftq.cli.stores import Data, opened, registry_file, require_folder
from driftq.errors import ClaimNotFound
from driftq.settings import load_settings

if TYPE_CHECKING:
    from driftq.registry import StoredClaim
    from driftq.registry.sql_registry import SqlRegistry

app = typer.Typer(
    help="List, requeue and resolve the claims of handlers.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

StateName = Literal["claimed", "failed", "ready", "done", "stale", "dead", "unknown"]
ResolutionName = Literal["done", "retry", "dead"]
HandlerName = Annotated[str, typer.Argument(metavar="HANDLER", help="The handler of the claim.")]
EventId = Annotated[str, typer.Argument(metavar="EVENT_ID", help="The event of the claim.")]
By = Annotated[str | None, typer.Option("--by", help="Your name, for the record.")]


@contextmanager
def _registry(data: str | None) -> Iterator[SqlRegistry | None]:
    """The registry that is set; None where SQLite's file of it was never made."""
    settings = load_settings()
    folder = data or settings.data
    file = registry_file(folder)
    if settings.events.database_url is None:
        require_folder(data)
        if not os.path.exists(file):
            yield None
            return
    with opened(settings, file) as database:
        from driftq.registry.sql_registry import SqlRegistry

        yield SqlRegistry(database, owner="driftq registry")


@contextmanager
def _claims(data: str | None, handler: str, event_id: str) -> Iterator[SqlRegistry]:
    """The registry, for a change of one claim; where there is no registry there is no claim."""
    with _registry(data) as registry:
        if registry is None:
            say_error(str(ClaimNotFound(handler, event_id=event_id)))
            raise typer.Exit(1)
        yield registry


@app.command(
    "list", epilog=examples("driftq registry list", "driftq registry list --state unknown --handler charge")
)
def list_claims(
    state: Annotated[StateName, typer.Option("--state", help="Only claims in this state.")] = "dead",
    handler: Annotated[str | None, typer.Option("--handler", help="Only claims of this handler.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="The maximum number of claims.")] = 100,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """List claims: dead letters, unless another state is named."""
    from driftq.registry import ClaimState

    with _registry(data) as registry:
        claims = (
            [] if registry is None else registry.list_claims(ClaimState(state), handler=handler, limit=limit)
        )
    if as_json:
        say_json({"claims": [asdict(claim) for claim in claims]})
        return
    right = frozenset({"seq", "attempts"})
    names = ("handler", "event id", "aggregate", "seq", "attempts", "last error", "reason")
    listed = table(f"claims: {state}", *names, right=right)
    for claim in claims:
        aggregate = f"{claim.aggregate_type} {claim.aggregate_id}"
        numbers = str(claim.sequence_number), str(claim.attempts)
        listed.add_row(claim.handler, claim.event_id, aggregate, *numbers, claim.last_error, claim.reason)
    show_or(listed, f"no claims are {state}" if handler is None else f"no claims of {handler} are {state}")


@app.command(epilog=examples("driftq registry requeue charge event-1 --by ada"))
def requeue(
    handler: HandlerName, event_id: EventId, by: By = None, data: Data = None, as_json: Json = False
) -> None:
    """Requeue a dead claim with all its attempts."""
    with _claims(data, handler, event_id) as registry:
        _say_state(registry.requeue(handler, event_id, by=by or getpass.getuser()), as_json=as_json)


@app.command(epilog=examples("driftq registry resolve charge event-2 --as done"))
def resolve(
    handler: HandlerName,
    event_id: EventId,
    resolution: Annotated[
        ResolutionName, typer.Option("--as", help="done: it happened; retry: it did not; dead: park it.")
    ],
    by: By = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Record the outcome of an effect that is unknown."""
    from driftq.registry import Resolution

    with _claims(data, handler, event_id) as registry:
        claim = registry.resolve(handler, event_id, Resolution(resolution), by=by or getpass.getuser())
        _say_state(claim, as_json=as_json)


def _say_state(claim: StoredClaim, *, as_json: bool) -> None:
    if as_json:
        say_json(asdict(claim))
    else:
        say(f"event {claim.event_id} of handler {claim.handler} is {claim.state.value}: {claim.reason}")
