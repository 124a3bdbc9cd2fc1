"""`driftq topic`: create, list and look at topics."""

from typing import Annotated, Any

import typer

from driftq.cli.connection import Connection, topic_path
from driftq.cli.screen import Json, Url, say, say_json, show, table
from driftq.settings import load_url

app = typer.Typer(help="Create, list and look at topics.", no_args_is_help=True, rich_markup_mode=None)

_NUMBERS = frozenset(
    {"partition", "first", "next", "messages", "bytes", "acked", "floor", "in flight", "lag"}
)

Name = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.")]


@app.command()
def create(
    name: Name,
    partitions: Annotated[int, typer.Option("--partitions", "-p", help="1 to 4096, fixed for good.")] = 1,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Create a topic; repeating it with the same number of partitions changes nothing."""
    with Connection(load_url(url)) as connection:
        answer = connection.post("/v1/topics", {"name": name, "partitions": partitions})
    if as_json:
        say_json(answer)
    else:
        say(f"topic {name} with {partitions} partition{'s' if partitions != 1 else ''}")


@app.command("list")
def list_topics(url: Url = None, as_json: Json = False) -> None:
    """List all topics."""
    with Connection(load_url(url)) as connection:
        answer = connection.get("/v1/topics")
    if as_json:
        say_json(answer)
    else:
        for name in answer["topics"]:
            say(name)


@app.command("show")
def show_topic(name: Name, url: Url = None, as_json: Json = False) -> None:
    """Show a topic's partitions, and how far each group and reader is."""
    with Connection(load_url(url)) as connection:
        answer = connection.get(topic_path(name))
    if as_json:
        say_json(answer)
        return
    show(_partitions(answer), _groups(answer))
    if not answer["groups"]:
        say("no group reads this topic yet")
    for reader in answer.get("readers", []):
        say(f"reader {reader['reader']}: partition {reader['partition']}, lag {reader['lag']:,}")


def _partitions(answer: dict[str, Any]) -> Any:
    shown = table(
        f"topic {answer['name']}", "partition", "first", "next", "messages", "bytes", right=_NUMBERS
    )
    for one in answer["partitions"]:
        numbers = (one["first_offset"], one["next_offset"], one["messages"], one["bytes"])
        shown.add_row(str(one["partition"]), *(f"{number:,}" for number in numbers))
    return shown


def _groups(answer: dict[str, Any]) -> Any:
    shown = table("groups", "group", "partition", "acked", "floor", "in flight", "lag", right=_NUMBERS)
    for one in answer["groups"]:
        numbers = (one["acked"], one["floor"], one["in_flight"], one["lag"])
        shown.add_row(one["group"], str(one["partition"]), *(f"{number:,}" for number in numbers))
    return shown
