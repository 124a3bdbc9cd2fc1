"""`driftq dlq`: list, show, redrive and purge dead letters of groups, workers and projections.

The server has those of consumer groups. Those of workers and projections are on their transport, and their
redrives in the registry and the read models: `driftq.cli.handler_letters`.
"""

import getpass
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal
from urllib.parse import quote

import typer

from driftq.cli import handler_letters
from driftq.cli.connection import Connection
from driftq.cli.screen import (
    Json,
    Url,
    Yes,
    confirm,
    examples,
    say,
    say_aside,
    say_json,
    show,
    show_or,
    table,
)
from driftq.cli.stores import Data
from driftq.cli.targets import Sinks, pipeline_options
from driftq.errors import NotFound, ServerUnreachable
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
Group = Annotated[
    str | None, typer.Option("--group", help="Only dead letters of this group, worker or projection.")
]
KindName = Literal["group", "worker", "projection", "publisher"]
Kind = Annotated[KindName | None, typer.Option("--kind", help="Only dead letters of this kind.")]
Ids = Annotated[
    list[str] | None,
    typer.Option("--id", metavar="ID", help="Only this dead letter of a worker or projection; repeatable."),
]
AppFile = Annotated[
    str | None, typer.Option("--app", metavar="FILE.py", help="The file with your projections.")
]
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
    offsets: list[int] | None,
    group: str | None,
    reason: str | None,
    error: str | None,
    kind: str | None = None,
) -> dict[str, Any]:
    wanted = {"group": group, "reason": reason, "last_error": error, "kind": kind}
    wanted = {name: value for name, value in wanted.items() if value is not None}
    selection: dict[str, Any] = {"filter": wanted} if wanted else {}
    if offsets:
        selection["offsets"] = offsets
    return selection


@app.command("list", epilog=examples("driftq dlq list"))
def list_dlqs(url: Url = None, as_json: Json = False) -> None:
    """List the topics that have dead letters."""
    listed: list[dict[str, Any]] = []
    if handler_letters.on_kafka():
        listed += handler_letters.kafka_topics(pipeline_options(url, None))
    with Connection(load_url(url)) as connection:
        listed += _from_server(lambda: connection.get("/v1/dlq")["dlqs"], nothing=[])
    if as_json:
        say_json({"dlqs": listed})
    elif not listed:
        say("no dead letters")
    else:
        found = table("dead letters", "topic", "letters", "oldest", right=frozenset({"letters"}))
        for entry in listed:
            name = f"{entry['topic']} (Kafka)" if "transport" in entry else entry["topic"]
            found.add_row(name, f"{entry['messages']:,}", entry["oldest_at"] or "")
        show(found)


@app.command("show", epilog=examples("driftq dlq show orders", "driftq dlq show orders --json"))
def show_dlq(
    topic: Name,
    limit: Annotated[int, typer.Option("--limit", min=1, help="The maximum number to show.")] = 100,
    app_file: AppFile = None,
    sinks: Sinks = None,
    url: Url = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Show the dead letters of a topic, oldest first. Copies with equal ids are shown once."""
    found: list[dict[str, Any]] = []
    if handler_letters.on_kafka():
        found += handler_letters.handlers_messages(pipeline_options(url, data), topic)
    with Connection(load_url(url)) as connection:
        page = _from_server(
            lambda: _call(connection, topic, query={"limit": limit}, needs_topic=not found), nothing=None
        )
        found += page["messages"] if page else []
    messages = handler_letters.collapsed(found)[:limit]
    of_handlers = any(map(handler_letters.is_handlers, messages))
    if of_handlers:
        handler_letters.mark_if_known(messages, pipeline_options(url, data, sinks), app_file=app_file)
    if as_json:
        say_json({"messages": messages})
        return
    more = ("stage", "id") if of_handlers else ()
    columns = ("offset", "group", "attempts", "last error", "key", "state", *more)
    listed = table(f"dlq.{topic}", *columns, right=frozenset({"offset", "attempts"}))
    for entry in messages:
        facts = handler_letters.facts(entry)
        state = f"redriven {entry['redriven_at']}" if entry.get("redriven_at") else facts["reason"]
        by = f"{facts['kind']} {facts['group']}" if "kind" in facts else facts["group"]
        own = (facts.get("stage", ""), facts.get("id", "")) if of_handlers else ()
        numbers = str(entry["offset"]), by, str(facts["attempts"])
        listed.add_row(*numbers, facts["last_error"], entry["key"], state, *own)
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
        cause = entry.get("message") or _WHY_SKIPPED.get(entry["reason"], entry["reason"])
        causes.setdefault((cause, entry.get("group", "")), []).append(entry["offset"])
    for (cause, group), offsets in causes.items():
        why = cause.replace("{group}", group)
        shown = ", ".join(map(str, offsets[:_OFFSETS_SHOWN]))
        more = ", …" if len(offsets) > _OFFSETS_SHOWN else ""
        yield f"{len(offsets):,} skipped: {why} (offset {shown}{more})"
    unlisted = answer["matched"] - answer["redriven"] - len(answer["skipped"])
    if unlisted and not listed_all:
        yield f"{unlisted:,} more were skipped"


@app.command(
    epilog=examples(
        "driftq dlq redrive orders --dry-run",
        "driftq dlq redrive orders --group billing --by ada",
        "driftq dlq redrive orders --kind projection --app app.py",
    )
)
def redrive(
    topic: Name,
    offsets: Offsets = None,
    ids: Ids = None,
    group: Group = None,
    kind: Kind = None,
    reason: Reason = None,
    error: Error = None,
    dry_run: DryRun = False,
    rate: Annotated[int | None, typer.Option("--rate", help="Redrive at most this many a second.")] = None,
    all_groups: Annotated[
        bool, typer.Option("--all-groups", help="Redrive to every group, not only the one that gave up.")
    ] = False,
    by: Annotated[str | None, typer.Option("--by", help="Your name, for the history.")] = None,
    app_file: AppFile = None,
    sinks: Sinks = None,
    url: Url = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Redrive dead letters, each once: to the group that gave them up, or where the handler keeps them."""
    options = pipeline_options(url, data, sinks)
    own = [] if kind == "group" or all_groups else handler_letters.handlers_messages(options, topic)
    wanted = handler_letters.Wanted(
        ids=ids, offsets=offsets, group=group, kind=kind, reason=reason, error=error
    )
    answer = handler_letters.redrive_matching(
        own,
        wanted,
        options,
        by=by or getpass.getuser(),
        dry_run=dry_run,
        rate=rate,
        app_file=app_file,
    )
    if kind in (None, "group") and not ids:
        request = _selection(offsets, group, reason, error, "group" if own else kind)
        request |= {"dry_run": dry_run, "all_groups": all_groups}
        request |= {} if rate is None else {"rate_per_s": rate}
        request |= {} if by is None else {"by": by}
        with Connection(load_url(url)) as connection:
            given = _from_server(
                lambda: _call(connection, topic, "/redrive", body=request, needs_topic=not own), nothing=None
            )
        answer = _sum(answer, given or handler_letters.NOTHING)
    if as_json:
        say_json(answer)
    else:
        done = "a dry run redrives none" if dry_run else f"{answer['redriven']:,} were redriven"
        say(f"{answer['matched']:,} dead letters match, {done}")
        for line in skipped_lines(answer, listed_all=dry_run):
            say(line)
    if answer["skipped"] and not answer["redriven"] and not dry_run and handler_letters.is_refused(answer):
        raise typer.Exit(1)


@app.command(epilog=examples("driftq dlq purge orders --dry-run", "driftq dlq purge orders --offset 0 --yes"))
def purge(
    topic: Name,
    offsets: Offsets = None,
    group: Group = None,
    kind: Kind = None,
    reason: Reason = None,
    error: Error = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Delete dead letters of a server's topic for good, after confirmation."""
    selection = _selection(offsets, group, reason, error, kind)
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
    connection: Connection,
    topic: str,
    verb: str = "",
    *,
    body: Any = None,
    query: Query | None = None,
    needs_topic: bool = True,
) -> Any:
    """The response; None when the topic exists and never had a dead letter. Raises TopicNotFound.

    Without `needs_topic` the topic may not exist: its dead letters are on another transport, or outlive it.
    """
    path = _path(topic, verb)
    try:
        return connection.get(path, query) if body is None else connection.post(path, body)
    except NotFound:
        if needs_topic:
            connection.get(topic_path(topic))
        return None


def _from_server(call: Callable[[], Any], *, nothing: Any) -> Any:
    """What the server says. Where Kafka is the transport, it may be away: it has those of groups only."""
    try:
        return call()
    except (ServerUnreachable, NotFound) as absent:
        if not handler_letters.on_kafka():
            raise
        if isinstance(absent, ServerUnreachable):
            say_aside(f"dead letters of consumer groups are left out: {absent.message}")
        return nothing


def _sum(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    return {name: first[name] + second[name] for name in ("matched", "redriven", "skipped")}
