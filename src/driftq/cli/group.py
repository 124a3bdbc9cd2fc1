"""`driftq group`: reset and delete consumer groups."""

from typing import Annotated

import typer

from driftq.cli.connection import Connection
from driftq.cli.screen import Url, examples, say
from driftq.settings import load_url
from driftq.transport.paths import group_path

app = typer.Typer(help="Reset and delete consumer groups.", no_args_is_help=True, rich_markup_mode=None)

Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.")]
Group = Annotated[str, typer.Argument(metavar="GROUP", help="The group's name.")]


@app.command(
    epilog=examples(
        "driftq group reset orders billing --to earliest",
        "driftq group reset orders billing --to 2026-01-31T00:00:00Z",
    )
)
def reset(
    topic: Topic,
    group: Group,
    to: Annotated[str, typer.Option("--to", help="earliest, latest, an offset, or an RFC 3339 time.")],
    url: Url = None,
) -> None:
    """Move a group to another place in the topic."""
    with Connection(load_url(url)) as connection:
        connection.post(f"{group_path(topic, group)}/reset", {"to": int(to) if to.isdigit() else to})
    say(f"group {group} of topic {topic} continues from {to}")


@app.command(epilog=examples("driftq group delete orders billing"))
def delete(topic: Topic, group: Group, url: Url = None) -> None:
    """Delete a group with its progress. Its streams end."""
    with Connection(load_url(url)) as connection:
        connection.delete(group_path(topic, group))
    say(f"group {group} of topic {topic} is deleted")
