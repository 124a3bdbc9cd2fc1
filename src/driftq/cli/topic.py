"""`driftq topic`: create, list, show, seal and delete topics."""

from typing import Annotated, Any

import typer

from driftq.cli.connection import Connection
from driftq.cli.screen import Json, Url, Yes, confirm, examples, say, say_json, show, table
from driftq.settings import load_url
from driftq.transport.paths import topic_path

app = typer.Typer(
    help="Create, list, show, seal and delete topics.", no_args_is_help=True, rich_markup_mode=None
)

_NUMBERS = frozenset(
    {"partition", "first", "next", "messages", "bytes", "acked", "floor", "in flight", "lag", "delayed"}
)

Name = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.")]


@app.command(
    epilog=examples(
        "driftq topic create orders --partitions 3", "driftq topic create clicks --retention-ms 86400000"
    )
)
def create(
    name: Name,
    partitions: Annotated[
        int, typer.Option("--partitions", "-p", help="1 to 4096; cannot be changed later.")
    ] = 1,
    retention_ms: Annotated[
        int | None, typer.Option("--retention-ms", help="Keep messages for at least this long.")
    ] = None,
    retention_bytes: Annotated[
        int | None, typer.Option("--retention-bytes", help="Delete the oldest messages above this size.")
    ] = None,
    table: Annotated[
        bool | None,
        typer.Option("--table/--no-table", help="Also keep it as Parquet (default for events.*)."),
    ] = None,
    tenant: Annotated[
        str | None,
        typer.Option("--tenant", help="The tenant that owns it (else that of the key, or nobody)."),
    ] = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Create a topic. Repeating the command with the same number of partitions changes nothing."""
    with Connection(load_url(url)) as connection:
        body = {
            "name": name,
            "partitions": partitions,
            "retention_ms": retention_ms,
            "retention_bytes": retention_bytes,
            "table": table,
            "tenant": tenant,
        }
        answer = connection.post(
            "/v1/topics", {key: value for key, value in body.items() if value is not None}
        )
    if as_json:
        say_json(answer)
    else:
        say(f"topic {name} with {partitions} partition{'s' if partitions != 1 else ''}")


@app.command("list", epilog=examples("driftq topic list", "driftq topic list --json"))
def list_topics(url: Url = None, as_json: Json = False) -> None:
    """List all topics."""
    with Connection(load_url(url)) as connection:
        answer = connection.get("/v1/topics")
    if as_json:
        say_json(answer)
    else:
        for name in answer["topics"]:
            say(name)
        if not answer["topics"]:
            say("no topics yet; create one with: driftq topic create orders")


@app.command("show", epilog=examples("driftq topic show orders", "driftq topic show orders --json"))
def show_topic(name: Name, url: Url = None, as_json: Json = False) -> None:
    """Show a topic's partitions, groups and readers."""
    with Connection(load_url(url)) as connection:
        answer = connection.get(topic_path(name))
    if as_json:
        say_json(answer)
        return
    show(_partitions(answer))
    if answer["groups"]:
        show(_groups(answer))
    else:
        say("no group reads this topic yet")
    for reader in answer.get("readers", []):
        say(f"reader {reader['reader']}: partition {reader['partition']}, lag {reader['lag']:,}")
    for stream in answer.get("streams", []):
        if stream["stalled"]:
            say(f"owner {stream['owner']} of group {stream['group']} has stopped responding")


@app.command(epilog=examples("driftq topic seal"))
def seal(url: Url = None) -> None:
    """Bring the tables of all topics up to date. The server does this every five minutes."""
    with Connection(load_url(url), timeout_s=None) as connection:  # It takes as long as there is to write.
        connection.post("/v1/seal", {})
    say("everything produced so far is in the tables")


@app.command(epilog=examples("driftq topic delete clicks --yes"))
def delete(name: Name, yes: Yes = False, url: Url = None) -> None:
    """Delete a topic with all its messages, after confirmation."""
    with Connection(load_url(url)) as connection:
        if not yes:
            count = sum(one["messages"] for one in connection.get(topic_path(name))["partitions"])
            messages = f"{count:,} message{'s' if count != 1 else ''}"
            confirm(f"Delete topic {name} with its {messages}, for good?", yes=yes)
        connection.delete(topic_path(name))
    say(f"topic {name} is deleted")


def _partitions(answer: dict[str, Any]) -> Any:
    shown = table(
        f"topic {answer['name']}", "partition", "first", "next", "messages", "bytes", right=_NUMBERS
    )
    for one in answer["partitions"]:
        numbers = (one["first_offset"], one["next_offset"], one["messages"], one["bytes"])
        shown.add_row(str(one["partition"]), *(f"{number:,}" for number in numbers))
    return shown


def _groups(answer: dict[str, Any]) -> Any:
    columns = ("group", "partition", "acked", "floor", "in flight", "lag", "delayed")
    shown = table("groups", *columns, right=_NUMBERS)
    for one in answer["groups"]:
        numbers = (one["acked"], one["floor"], one["in_flight"], one["lag"], one["delayed"])
        shown.add_row(one["group"], str(one["partition"]), *(f"{number:,}" for number in numbers))
    return shown
