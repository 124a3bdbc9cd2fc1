"""`driftq step`: decide what became of a step whose process ended before it reported an outcome."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import typer

from driftq.cli.connection import Connection
from driftq.cli.screen import Json, Url, examples, say, say_json
from driftq.settings import load_url

app = typer.Typer(
    help="Look at the steps of runs, and resolve unknown ones.", no_args_is_help=True, rich_markup_mode=None
)

RunId = Annotated[str, typer.Argument(metavar="RUN_ID", help="The run.")]
StepKey = Annotated[str, typer.Argument(metavar="STEP", help="The key of the step.")]
Group = Annotated[str, typer.Option("--group", help="The group of the run.")]
Tenant = Annotated[str, typer.Option("--tenant", help="The tenant of the run.")]


@app.command(epilog=examples("driftq step show nightly-7 charge"))
def show(
    run_id: RunId,
    step: StepKey,
    group: Group = "agent",
    tenant: Tenant = "",
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Show the state of one step. `driftq explain run RUN_ID` shows all of them."""
    with Connection(load_url(url)) as connection:
        found = connection.get("/v1/idempotency/status", _identity(run_id, step, group, tenant))
    if as_json:
        say_json(found)
        return
    facts = [f"{name} {found[name]}" for name in ("owner", "last_error") if found.get(name)]
    if found.get("result") is not None:
        facts.append(f"result {json.dumps(found['result'], ensure_ascii=False)}")
    say(f"step {step} of run {run_id} is {found['status'].lower()}{', ' if facts else ''}{', '.join(facts)}")


@app.command(
    epilog=examples(
        "driftq step resolve nightly-7 charge --as retry",
        'driftq step resolve nightly-7 charge --as committed --result \'{"charge_id": "ch-1"}\'',
    )
)
def resolve(
    run_id: RunId,
    step: StepKey,
    decision: Annotated[
        Literal["committed", "retry"],
        typer.Option("--as", help="committed: it happened; retry: it did not, so it may run again."),
    ],
    result: Annotated[
        str | None, typer.Option("--result", metavar="JSON", help="What it gave, for later runs.")
    ] = None,
    group: Group = "agent",
    tenant: Tenant = "",
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Decide what became of an unknown step."""
    body: dict[str, Any] = {**_identity(run_id, step, group, tenant), "as": decision}
    if result is not None:
        try:
            body["result"] = json.loads(result)
        except ValueError:
            raise typer.BadParameter(f"{result!r} is not JSON") from None
    with Connection(load_url(url)) as connection:
        connection.post("/v1/idempotency/resolve", body)
    if as_json:
        say_json({"run_id": run_id, "step": step, "as": decision})
    elif decision == "committed":
        say(f"step {step} of run {run_id} is committed: it never runs again")
    else:
        say(f"step {step} of run {run_id} may run again")


def _identity(run_id: str, step: str, group: str, tenant: str) -> dict[str, Any]:
    return {
        "topic": "steps",
        "group": group,
        "idempotency_key": f"step:{run_id}/{step}",
        "tenant_id": tenant,
    }
