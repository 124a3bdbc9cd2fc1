"""`driftq registry`: look at the claims of handlers, requeue dead letters, resolve unknown effects."""

from __future__ import annotations

import getpass
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from driftq.cli.screen import Json, say, say_json, show, table
from driftq.cli.stores import Data, opened, registry_file
from driftq.registry import ClaimState, Resolution, StoredClaim
from driftq.settings import load_settings

if TYPE_CHECKING:
    from driftq.registry.sql_registry import SqlRegistry

app = typer.Typer(
    help="Look at claims, requeue dead letters, resolve unknown effects.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

StateName = Literal["claimed", "failed", "ready", "done", "stale", "dead", "unknown"]
ResolutionName = Literal["done", "retry", "dead"]
HandlerName = Annotated[str, typer.Argument(metavar="HANDLER", help="Whose claim.")]
EventId = Annotated[str, typer.Argument(metavar="EVENT_ID", help="Of which event.")]
By = Annotated[str | None, typer.Option("--by", help="Who does this; it is recorded.")]


@contextmanager
def _registry(data: str | None) -> Iterator[SqlRegistry]:
    settings = load_settings()
    with opened(settings, registry_file(data or settings.data)) as database:
        from driftq.registry.sql_registry import SqlRegistry

        yield SqlRegistry(database, owner="driftq registry")


@app.command("list")
def list_claims(
    state: Annotated[StateName, typer.Option("--state", help="Claims in this state.")] = "dead",
    handler: Annotated[str | None, typer.Option("--handler", help="Of this handler only.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many.")] = 100,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """List claims: dead letters, unless another state is named."""
    with _registry(data) as registry:
        claims = registry.list_claims(ClaimState(state), handler=handler, limit=limit)
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
    show(listed)


@app.command()
def requeue(
    handler: HandlerName, event_id: EventId, by: By = None, data: Data = None, as_json: Json = False
) -> None:
    """Bring a dead letter back, with all its attempts."""
    with _registry(data) as registry:
        _say_state(registry.requeue(handler, event_id, by=by or getpass.getuser()), as_json=as_json)


@app.command()
def resolve(
    handler: HandlerName,
    event_id: EventId,
    resolution: Annotated[
        ResolutionName, typer.Option("--as", help="It happened, it did not, or it is to be parked.")
    ],
    by: By = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Say what became of an effect that nobody could tell about."""
    with _registry(data) as registry:
        claim = registry.resolve(handler, event_id, Resolution(resolution), by=by or getpass.getuser())
        _say_state(claim, as_json=as_json)


def _say_state(claim: StoredClaim, *, as_json: bool) -> None:
    if as_json:
        say_json(asdict(claim))
    else:
        say(f"event {claim.event_id} of handler {claim.handler} is {claim.state.value}: {claim.reason}")
