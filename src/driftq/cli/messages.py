"""`driftq messages`: find stored messages of a topic."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from driftq.cli.connection import Connection
from driftq.cli.screen import Json, Url, examples, say_aside, say_json, show_or, table
from driftq.settings import load_url
from driftq.transport.paths import Query, topic_path

MESSAGES_EXAMPLES = examples(
    "driftq messages orders --key user:1",
    "driftq messages orders --since 2026-01-31T00:00:00Z --newest",
)
_SHOWN = 60


def messages(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic to search.")],
    key: Annotated[str | None, typer.Option("--key", help="Only messages with this key.")] = None,
    run: Annotated[
        str | None, typer.Option("--run", metavar="RUN_ID", help="Only messages of this run.")
    ] = None,
    tenant: Annotated[
        str | None, typer.Option("--tenant", metavar="TENANT_ID", help="Only messages of this tenant.")
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="Produced at or after, RFC 3339.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="TIME", help="Produced before, RFC 3339.")
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", min=0, help="Only messages of this partition.")
    ] = None,
    newest: Annotated[bool, typer.Option("--newest", help="The newest first.")] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, help="The maximum number of messages.")] = 20,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Find stored messages by key, run, tenant or time."""
    query: dict[str, str | int | bool | None] = {
        "key": key,
        "run_id": run,
        "tenant_id": tenant,
        "since": since,
        "until": until,
        "partition": partition,
        "order": "newest" if newest else None,
    }
    found, more = _find(load_url(url), topic, query, limit)
    if as_json:
        for message in found:
            say_json(message)
        return
    listed = table(
        topic, "offset", "partition", "at", "key", "value", right=frozenset({"offset", "partition"})
    )
    for message in found:
        value = message["value"]
        text = f"{value[:_SHOWN]}…" if len(value) > _SHOWN else value
        place = str(message["offset"]), str(message["partition"])
        listed.add_row(*place, message["timestamp"], message.get("key", ""), text)
    show_or(listed, f"no stored message of {topic} fits")
    if more:
        say_aside("there may be more: raise --limit")


def _find(
    url: str, topic: str, query: dict[str, str | int | bool | None], limit: int
) -> tuple[list[dict[str, Any]], bool]:
    """Up to `limit` messages, over as many pages as that takes, and whether there may be more."""
    found: list[dict[str, Any]] = []
    after: int | None = None
    with Connection(url) as connection:
        while len(found) < limit:
            asked: Query = {**query, "limit": min(1_000, limit - len(found)), "after": after}
            page = connection.get(topic_path(topic, "/messages"), asked)
            found += page["messages"]
            after = page.get("next")
            if after is None:
                return found, False
    return found, True
