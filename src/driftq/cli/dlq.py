"""`driftq dlq`: list, show, redrive and purge dead letters."""

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
    help="List, show, redrive and purge dead letters.", no_args_is_help=True, rich_markup_mode=None
)


def _original(topic: str) -> str:
    """The original topic, also where the user names its dead-letter topic."""
    return topic.removeprefix("dlq.")


Name = Annotated[str, typer.Argument(metavar="TOPIC", help="The original topic's name.", callback=_original)]
Offsets = Annotated[
    list[int] | None, typer.Option("--offset", help="Only this dead letter; repeat for more.")
]
Group = Annotated[str | None, typer.Option("--group", help="Only dead letters of this group.")]
Reason = Annotated[
    str | None, typer.Option("--reason", help="max_attempts, not_retryable or deadline_exceeded.")
]
Error = Annotated[
    str | None, typer.Option("--error", help="Only dead letters whose last error contains this text.")
]
_OFFSETS_SHOWN = 10
DryRun = Annotated[bool, typer.Option("--dry-run", help="Count the dead letters; change nothing.")]


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
        for entry in answer["dlqs"]:
            found.add_row(entry["topic"], f"{entry['messages']:,}", entry["oldest_at"] or "")
        show(found)


@app.command("show", epilog=examples("driftq dlq show orders", "driftq dlq show orders --json"))
def show_dlq(
    topic: Name,
    limit: Annotated[int, typer.Option("--limit", min=1, help="The maximum number to show.")] = 100,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Show the dead letters of a topic, oldest first."""
    with Connection(load_url(url)) as connection:
        answer = _call(connection, topic, query={"limit": limit})
    if answer is None:
        answer = {"messages": []}
    if as_json:
        say_json(answer)
        return
    right = frozenset({"offset", "attempts"})
    listed = table(f"dlq.{topic}", "offset", "group", "attempts", "last error", "key", "state", right=right)
    for entry in answer["messages"]:
        facts = entry["envelope"]["dlq"]
        state = f"redriven {entry['redriven_at']}" if entry.get("redriven_at") else facts["reason"]
        numbers = str(entry["offset"]), facts["group"], str(facts["attempts"])
        listed.add_row(*numbers, facts["last_error"], entry["key"], state)
    show_or(listed, f"{topic} has no dead letters")


_WHY_SKIPPED = {
    "group_deleted": "group {group} no longer exists; --all-groups redrives them to every group",
    "already_redriven": "they were already redriven",
    "not_found": "they no longer exist",
    "not_stored": "the server could not store them; its log says why",
}


def skipped_lines(answer: dict[str, Any], *, listed_all: bool) -> Iterator[str]:
    """The skipped dead letters by cause. The server lists the first of very many, unless `listed_all`."""
    causes: dict[tuple[str, str], list[int]] = {}
    for entry in answer["skipped"]:
        causes.setdefault((entry["reason"], entry.get("group", "")), []).append(entry["offset"])
    for (reason, group), offsets in causes.items():
        why = _WHY_SKIPPED.get(reason, reason).format(group=group)
        shown = ", ".join(map(str, offsets[:_OFFSETS_SHOWN]))
        more = ", …" if len(offsets) > _OFFSETS_SHOWN else ""
        yield f"{len(offsets):,} skipped: {why} (offset {shown}{more})"
    unlisted = answer["matched"] - answer["redriven"] - len(answer["skipped"])
    if unlisted and not listed_all:
        yield f"{unlisted:,} more were skipped"


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
    rate: Annotated[int | None, typer.Option("--rate", help="Redrive at most this many a second.")] = None,
    all_groups: Annotated[
        bool, typer.Option("--all-groups", help="Redrive to every group, not only the one that gave up.")
    ] = False,
    by: Annotated[str | None, typer.Option("--by", help="Your name, for the history.")] = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Redrive dead letters, each once, to the group that gave them up."""
    request = _selection(offsets, group, reason, error) | {"dry_run": dry_run, "all_groups": all_groups}
    if rate is not None:
        request["rate_per_s"] = rate
    if by is not None:
        request["by"] = by
    with Connection(load_url(url)) as connection:
        answer = _call(connection, topic, "/redrive", body=request)
    if answer is None:
        answer = {"matched": 0, "redriven": 0, "skipped": []}
    if as_json:
        say_json(answer)
    else:
        done = "a dry run redrives none" if dry_run else f"{answer['redriven']:,} were redriven"
        say(f"{answer['matched']:,} dead letters match, {done}")
        for line in skipped_lines(answer, listed_all=dry_run):
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
    """Delete dead letters for good, after confirmation."""
    selection = _selection(offsets, group, reason, error)
    with Connection(load_url(url)) as connection:

        def ask(*, only_count: bool) -> dict[str, Any]:
            body = selection | {"dry_run": only_count}
            answer = _call(connection, topic, "/purge", body=body)
            return {"matched": 0, "purged": 0} if answer is None else dict(answer)

        answer = ask(only_count=dry_run or not yes)
        if answer["matched"] and not dry_run and not yes:
            confirm(f"Purge {_dead_letters(answer['matched'])} of {topic}, for good?", yes=yes)
            answer = ask(only_count=False)
    if as_json:
        say_json(answer)
    elif not answer["matched"]:
        say(f"{topic} has no dead letters that match" if selection else f"{topic} has no dead letters")
    elif dry_run:
        say(f"{_dead_letters(answer['matched'])} would be purged; nothing was changed")
    else:
        say(f"{_dead_letters(answer['purged'])} purged")


def _dead_letters(count: int) -> str:
    return f"{count:,} dead letter{'s' if count != 1 else ''}"


def _call(
    connection: Connection, topic: str, verb: str = "", *, body: Any = None, query: Query | None = None
) -> Any:
    """The response; None when the topic exists and never had a dead letter. Raises TopicNotFound."""
    path = _path(topic, verb)
    try:
        return connection.get(path, query) if body is None else connection.post(path, body)
    except NotFound:
        connection.get(topic_path(topic))
        return None
