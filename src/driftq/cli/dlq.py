"""`driftq dlq`: look at dead letters, send them again, purge them."""

from typing import Annotated, Any
from urllib.parse import quote

import typer

from driftq.cli.connection import Connection
from driftq.cli.screen import Json, Url, say, say_json, show, table
from driftq.settings import load_url

app = typer.Typer(
    help="Look at dead letters, redrive or purge them.", no_args_is_help=True, rich_markup_mode=None
)

Name = Annotated[str, typer.Argument(metavar="TOPIC", help="The original topic's name.")]
Offsets = Annotated[list[int] | None, typer.Option("--offset", help="Only this letter; may be repeated.")]
Group = Annotated[str | None, typer.Option("--group", help="Only letters that this group gave up.")]
Reason = Annotated[
    str | None, typer.Option("--reason", help="max_attempts, not_retryable or deadline_exceeded.")
]
Error = Annotated[str | None, typer.Option("--error", help="Only letters whose last error contains this.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say how many it would be.")]


def _path(topic: str, verb: str = "") -> str:
    return f"/v1/dlq/{quote(topic, safe='')}{verb}"


def _selection(
    offsets: list[int] | None, group: str | None, reason: str | None, error: str | None
) -> dict[str, Any]:
    wanted = {"group": group, "reason": reason, "last_error": error}
    wanted = {name: value for name, value in wanted.items() if value is not None}
    selection: dict[str, Any] = {"filter": wanted} if wanted else {}
    if offsets:
        selection["offsets"] = offsets
    return selection


@app.command("list")
def list_dlqs(url: Url = None, as_json: Json = False) -> None:
    """List the topics that have dead letters."""
    with Connection(load_url(url)) as connection:
        answer = connection.get("/v1/dlq")
    if as_json:
        say_json(answer)
    elif not answer["dlqs"]:
        say("no dead letters")
    else:
        found = table("dead letters", "topic", "letters", "oldest", right=frozenset({"letters"}))
        for one in answer["dlqs"]:
            found.add_row(one["topic"], f"{one['messages']:,}", one["oldest_at"] or "")
        show(found)


@app.command("show")
def show_dlq(
    topic: Name,
    limit: Annotated[int, typer.Option("--limit", help="At most so many.")] = 100,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Show the dead letters of a topic, oldest first."""
    with Connection(load_url(url)) as connection:
        answer = connection.get(_path(topic, f"?limit={limit}"))
    if as_json:
        say_json(answer)
        return
    right = frozenset({"offset", "attempts"})
    letters = table(f"dlq.{topic}", "offset", "group", "attempts", "last error", "key", "state", right=right)
    for one in answer["messages"]:
        facts = one["envelope"]["dlq"]
        state = f"redriven {one['redriven_at']}" if one.get("redriven_at") else facts["reason"]
        numbers = str(one["offset"]), facts["group"], str(facts["attempts"])
        letters.add_row(*numbers, facts["last_error"], one["key"], state)
    show(letters)


@app.command()
def redrive(
    topic: Name,
    offsets: Offsets = None,
    group: Group = None,
    reason: Reason = None,
    error: Error = None,
    dry_run: DryRun = False,
    rate: Annotated[int | None, typer.Option("--rate", help="At most so many a second.")] = None,
    all_groups: Annotated[
        bool, typer.Option("--all-groups", help="Not only for the group that gave up.")
    ] = False,
    by: Annotated[str | None, typer.Option("--by", help="Who does this; it is recorded.")] = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Send dead letters again, each once, to the group that gave them up."""
    asked = _selection(offsets, group, reason, error) | {"dry_run": dry_run, "all_groups": all_groups}
    if rate is not None:
        asked["rate_per_s"] = rate
    if by is not None:
        asked["by"] = by
    with Connection(load_url(url)) as connection:
        answer = connection.post(_path(topic, "/redrive"), asked)
    if as_json:
        say_json(answer)
    else:
        say(f"{answer['matched']:,} letters match, {answer['redriven']:,} were sent again")


@app.command()
def purge(
    topic: Name,
    offsets: Offsets = None,
    group: Group = None,
    reason: Reason = None,
    error: Error = None,
    dry_run: DryRun = False,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Forget dead letters for good."""
    asked = _selection(offsets, group, reason, error) | {"dry_run": dry_run}
    with Connection(load_url(url)) as connection:
        answer = connection.post(_path(topic, "/purge"), asked)
    if as_json:
        say_json(answer)
    else:
        say(f"{answer['matched']:,} letters match, {answer['purged']:,} are gone")
