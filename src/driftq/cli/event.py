"""`driftq event`: append events, read an aggregate, follow the log."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any, Literal
from uuid import uuid4

import typer

from driftq.cli.connection import Connection
from driftq.cli.lines import InputLines
from driftq.cli.screen import Json, Url, examples, say, say_aside, say_error, say_json, show_or, table
from driftq.settings import load_url

app = typer.Typer(help="Append events and read them back.", no_args_is_help=True, rich_markup_mode=None)

Type = Annotated[
    str, typer.Argument(metavar="AGGREGATE_TYPE", help="The type of the aggregate, such as order.")
]
Id = Annotated[str, typer.Argument(metavar="AGGREGATE_ID", help="The id of the aggregate.")]
Operation = Literal["create", "update", "delete", "append"]


@app.command(
    epilog=examples(
        """driftq event append order o-1 order.opened '{"total": 12}' --event-id o-1-opened""",
        """driftq event append order o-1 order.paid '{"paid": true}' --event-id payment-7""",
    )
)
def append(
    aggregate_type: Type,
    aggregate_id: Id,
    event_type: Annotated[
        str, typer.Argument(metavar="EVENT_TYPE", help="The type of the event, such as order.paid.")
    ],
    payload: Annotated[
        str, typer.Argument(metavar="JSON", help="The payload; - reads it from stdin.")
    ] = "{}",
    operation: Annotated[
        Operation, typer.Option("--operation", help="What the event does to the aggregate.")
    ] = "append",
    expected_seq: Annotated[
        int | None,
        typer.Option(
            "--expected-seq", min=0, help="The sequence that the aggregate must have; else a conflict."
        ),
    ] = None,
    event_id: Annotated[
        str | None,
        typer.Option("--event-id", help="The event's id: repeating the command with it adds nothing."),
    ] = None,
    kind: Annotated[str, typer.Option("--kind", help="fact, command, or a word of your own.")] = "fact",
    sequence_number: Annotated[
        int | None,
        typer.Option(
            "--sequence-number", min=1, help="The event's sequence; for servers without an allocator."
        ),
    ] = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Append one event to an aggregate."""
    body = {
        "event_id": event_id or str(uuid4()),
        "aggregate_type": aggregate_type,
        "aggregate_id": aggregate_id,
        "event_type": event_type,
        "kind": kind,
        "operation": operation,
        "payload": _payload(payload),
        "expected_seq": expected_seq,
        "sequence_number": sequence_number,
    }
    with Connection(load_url(url)) as connection:
        answer = connection.post("/v1/events", body)
    if as_json:
        say_json(answer)
    else:
        duplicate = ", a duplicate" if answer["duplicate"] else ""
        say(f"event {answer['event_id']} has sequence {answer['sequence_number']}{duplicate}")


@app.command("list", epilog=examples("driftq event list order o-1"))
def list_events(
    aggregate_type: Type,
    aggregate_id: Id,
    from_seq: Annotated[int, typer.Option("--from-seq", min=0, help="The first sequence to list.")] = 1,
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=10_000, help="The maximum number of events.")
    ] = 1000,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """List the events of one aggregate, in sequence order."""
    query = {"aggregate_type": aggregate_type, "aggregate_id": aggregate_id}
    with Connection(load_url(url)) as connection:
        answer = connection.get("/v1/events", query | {"from_seq": from_seq, "limit": limit})
    if as_json:
        say_json(answer)
        return
    listed = table(
        f"{aggregate_type} {aggregate_id}",
        "seq", "occurred at", "event type", "operation", "event id", "payload",
        right=frozenset({"seq"}),
    )  # fmt: skip
    for event in answer["events"]:
        names = event["occurred_at"], event["event_type"], event["operation"], event["event_id"]
        listed.add_row(str(event["sequence_number"]), *names, _compact(event["payload"]))
    show_or(listed, f"no events of {aggregate_type} {aggregate_id}")
    if "next_seq" in answer:
        say(f"there are more: --from-seq {answer['next_seq']}")


@app.command(epilog=examples("driftq event log", "driftq event log --from 100 --limit 10"))
def log(
    from_position: Annotated[int, typer.Option("--from", min=0, help="The first log position to print.")] = 1,
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=10_000, help="The maximum number of events.")
    ] = 1000,
    url: Url = None,
) -> None:
    """Print all events in log order, one JSON object per line."""
    with Connection(load_url(url)) as connection:
        printed = False
        for line in connection.lines("/v1/events/log", {"from": from_position, "limit": limit}):
            say(line.decode().rstrip("\n"))
            printed = True
    if not printed:
        say_aside(f"no events at or after position {from_position}")


@app.command(
    epilog=examples(
        "driftq event follow --group mail --type order.paid",
        "driftq event follow --group audit --start latest",
    )
)
def follow(
    group: Annotated[str, typer.Option("--group", help="The group whose position the server keeps.")],
    event_type: Annotated[
        str | None, typer.Option("--type", help="Only events of this type, such as order.paid.")
    ] = None,
    aggregate_type: Annotated[
        str | None, typer.Option("--aggregate-type", help="Only events of aggregates of this type.")
    ] = None,
    start: Annotated[
        Literal["earliest", "latest"], typer.Option("--start", help="Where a new group begins.")
    ] = "earliest",
    count: Annotated[
        int | None, typer.Option("--count", min=1, help="Stop after so many events; default: never.")
    ] = None,
    url: Url = None,
) -> None:
    """Print events as they are appended, one JSON object per line, from the group's position on."""
    import msgspec

    from driftq.client import Client, EventStore
    from driftq.model.wire.events import EventLine

    with Client(load_url(url)) as client:
        store = EventStore(client)
        follower = store.follow(
            group=group, aggregate_type=aggregate_type, event_type=event_type, start=start
        )
        with follower:
            for printed, event in enumerate(follower, 1):
                say(msgspec.json.encode(EventLine.of(event)).decode())
                sys.stdout.flush()
                if printed == count:
                    follower.commit()
                    break


def _payload(text: str) -> Any:
    if text == "-":
        lines = InputLines("-")
        text = "\n".join(lines)
        if lines.problem is not None:
            say_error(lines.problem)
            raise typer.Exit(1)
    try:
        return json.loads(text)
    except ValueError as error:
        raise typer.BadParameter(f"the payload is not JSON: {error}") from None


def _compact(payload: Any) -> str:
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":"))
