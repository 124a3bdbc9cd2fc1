"""`driftq dlq`: look at dead letters, send them again, purge them."""

from collections.abc import Iterator
from typing import Annotated, Any
from urllib.parse import quote

import typer

from driftq.cli.connection import Connection
from driftq.cli.screen import (
    Json,
    Url,
    Yes,
    confirm,
    examples,
    say,
    say_json,
    show,
    show_or,
    table,
)
from driftq.errors import NotFound
from driftq.settings import load_url
from driftq.transport.paths import Query, topic_path

app = typer.Typer(
    help="Look at dead letters, redrive or purge them.", no_args_is_help=True, rich_markup_mode=None
)


def _original(topic: str) -> str:
    """Whoever names the topic of the dead letters means the one that they come from."""
    return topic.removeprefix("dlq.")


Name = Annotated[str, typer.Argument(metavar="TOPIC", help="The original topic's name.", callback=_original)]
Offsets = Annotated[list[int] | None, typer.Option("--offset", help="Only this letter; may be repeated.")]
Group = Annotated[str | None, typer.Option("--group", help="Only letters that this group gave up.")]
Reason = Annotated[
    str | None, typer.Option("--reason", help="max_attempts, not_retryable or deadline_exceeded.")
]
Error = Annotated[str | None, typer.Option("--error", help="Only letters whose last error contains this.")]
_OFFSETS_SHOWN = 10
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


@app.command("list", epilog=examples("driftq dlq list"))
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


@app.command("show", epilog=examples("driftq dlq show orders", "driftq dlq show orders --json"))
def show_dlq(
    topic: Name,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many.")] = 100,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Show the dead letters of a topic, oldest first."""
    with Connection(load_url(url)) as connection:
        answer = _asked(connection, topic, query={"limit": limit})
    if answer is None:
        answer = {"messages": []}
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
    show_or(letters, f"{topic} has no dead letters")


_WHY_SKIPPED = {
    "group_deleted": "group {group} no longer exists; --all-groups sends them to every group",
    "already_redriven": "they were sent again before",
    "not_found": "they are no longer there",
    "not_stored": "the server could not store them; its log says why",
}


def skipped_lines(answer: dict[str, Any], *, all_told: bool) -> Iterator[str]:
    """Which letters were skipped, by cause; of very many the server names the first, unless `all_told`."""
    causes: dict[tuple[str, str], list[int]] = {}
    for one in answer["skipped"]:
        causes.setdefault((one["reason"], one.get("group", "")), []).append(one["offset"])
    for (reason, group), offsets in causes.items():
        why = _WHY_SKIPPED.get(reason, reason).format(group=group)
        shown = ", ".join(map(str, offsets[:_OFFSETS_SHOWN]))
        more = ", …" if len(offsets) > _OFFSETS_SHOWN else ""
        yield f"{len(offsets):,} skipped: {why} (offset {shown}{more})"
    untold = answer["matched"] - answer["redriven"] - len(answer["skipped"])
    if untold and not all_told:
        yield f"{untold:,} more were skipped"


@app.command(
    epilog=examples(
        "driftq dlq redrive orders --dry-run", "driftq dlq redrive orders --group billing --by ada"
    )
)
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
        answer = _asked(connection, topic, "/redrive", body=asked)
    if answer is None:
        answer = {"matched": 0, "redriven": 0, "skipped": []}
    if as_json:
        say_json(answer)
    else:
        done = "none is sent in a dry run" if dry_run else f"{answer['redriven']:,} were sent again"
        say(f"{answer['matched']:,} dead letters match, {done}")
        for line in skipped_lines(answer, all_told=dry_run):
            say(line)


@app.command(epilog=examples("driftq dlq purge orders --dry-run", "driftq dlq purge orders --offset 0 --yes"))
def purge(
    topic: Name,
    offsets: Offsets = None,
    group: Group = None,
    reason: Reason = None,
    error: Error = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Forget dead letters for good, after asking."""
    selection = _selection(offsets, group, reason, error)
    with Connection(load_url(url)) as connection:

        def ask(*, only_count: bool) -> dict[str, Any]:
            body = selection | {"dry_run": only_count}
            answer = _asked(connection, topic, "/purge", body=body)
            return {"matched": 0, "purged": 0} if answer is None else dict(answer)

        answer = ask(only_count=dry_run or not yes)
        if answer["matched"] and not dry_run and not yes:
            confirm(f"Purge {_letters(answer['matched'])} of {topic}, for good?", yes=yes)
            answer = ask(only_count=False)
    if as_json:
        say_json(answer)
    elif not answer["matched"]:
        say(f"{topic} has no dead letters that match" if selection else f"{topic} has no dead letters")
    elif dry_run:
        say(f"{_letters(answer['matched'])} would be purged; nothing was changed")
    else:
        say(f"{_letters(answer['purged'])} purged")


def _letters(count: int) -> str:
    return f"{count:,} dead letter{'s' if count != 1 else ''}"


def _asked(
    connection: Connection, topic: str, verb: str = "", *, body: Any = None, query: Query | None = None
) -> Any:
    """The answer; None when the topic is there and never had a dead letter. A missing topic is refused."""
    path = _path(topic, verb)
    try:
        return connection.get(path, query) if body is None else connection.post(path, body)
    except NotFound:
        connection.get(topic_path(topic))
        return None
