"""`driftq produce`: one message, or a message per line or row of a file."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from driftq.cli.connection import Connection
from driftq.cli.lines import Lines
from driftq.cli.progress import Progress
from driftq.cli.rows import Format, Rows
from driftq.cli.screen import Json, Url, say, say_error, say_json
from driftq.cli.sending import Message, Sender, batches
from driftq.settings import load_url

RETRIES = 4
ERRORS_SHOWN = 10


def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC")],
    value: Annotated[
        str | None, typer.Argument(metavar="[VALUE]", help="The payload of one message.")
    ] = None,
    file: Annotated[
        str | None, typer.Option("--file", "-f", metavar="FILE|-", help="A message per line; - is stdin.")
    ] = None,
    kind: Annotated[
        Format,
        typer.Option("--format", help="Lines as they are, JSON lines, or CSV with a first line of names."),
    ] = "lines",
    key: Annotated[str, typer.Option("--key", "-k", help="Chooses the partition.")] = "",
    key_field: Annotated[
        str | None, typer.Option("--key-field", help="With ndjson and csv: the field that is the key.")
    ] = None,
    run_id: Annotated[str | None, typer.Option("--run-id")] = None,
    step_id: Annotated[str | None, typer.Option("--step-id")] = None,
    parent_step_id: Annotated[str | None, typer.Option("--parent-step-id")] = None,
    tenant: Annotated[str | None, typer.Option("--tenant")] = None,
    idempotency_key: Annotated[
        str | None,
        typer.Option("--idempotency-key", help="Stored once under this key; with --file, KEY-1, KEY-2, …"),
    ] = None,
    target_topic: Annotated[str | None, typer.Option("--target-topic", help="Send it there instead.")] = None,
    partition: Annotated[int | None, typer.Option("--partition", help="Instead of the key's.")] = None,
    deadline: Annotated[str | None, typer.Option("--deadline", metavar="RFC3339")] = None,
    retries: Annotated[
        int, typer.Option("--retries", min=0, help="Needs an idempotency key, and makes one; 0: neither.")
    ] = RETRIES,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Produce a message, or one per line of a file; confirmed means durable."""
    if (value is None) == (file is None):
        raise typer.BadParameter("give either a VALUE or --file")
    if key_field is not None and (file is None or kind == "lines"):
        raise typer.BadParameter("--key-field goes with --file and --format ndjson or csv")
    if idempotency_key is None and retries:
        idempotency_key = f"cli-{uuid.uuid4()}"
    envelope = {
        "run_id": run_id,
        "step_id": step_id,
        "parent_step_id": parent_step_id,
        "tenant_id": tenant,
        "target_topic": target_topic,
        "partition_override": partition,
        "deadline": deadline,
    }
    given = {name: setting for name, setting in envelope.items() if setting is not None}
    with Connection(load_url(url)) as connection:
        sender = Sender(connection, retries=retries)
        if file is None:
            _send_one(sender, _message(topic, value or "", key, given, idempotency_key), as_json=as_json)
            return
        lines = Lines(file)
        rows = Rows(lines, kind, key_field=key_field)
        messages = (
            _message(
                topic,
                row.value,
                key if row.key is None else row.key,
                given,
                f"{idempotency_key}-{number}" if idempotency_key else None,
            )
            for number, row in enumerate(rows, start=1)
        )
        with Progress(file) as progress:
            failed = _send_many(sender, messages, lines, progress, as_json=as_json)
    problem = lines.problem or rows.problem
    if problem:
        say_error(f"{problem}; nothing behind it was sent")
    if failed or problem:
        raise typer.Exit(1)


def _message(
    topic: str, value: str, key: str, envelope: dict[str, Any], idempotency_key: str | None
) -> Message:
    if idempotency_key is not None:
        envelope = {**envelope, "idempotency_key": idempotency_key}
    return {"topic": topic, "key": key, "value": value} | ({"envelope": envelope} if envelope else {})


def _send_one(sender: Sender, message: Message, *, as_json: bool) -> None:
    answer = sender.send(message)
    if as_json:
        say_json(answer)
        return
    note = "; a duplicate, nothing was added" if answer.get("duplicate") else ""
    if answer.get("payload_mismatch"):
        note += "; the payload differs from the stored one"
    say(f"produced to {answer['topic']} partition {answer['partition']} offset {answer['offset']}{note}")


def _send_many(
    sender: Sender, messages: Iterator[Message], lines: Lines, progress: Progress, *, as_json: bool
) -> int:
    """Send all, say how it went; the number that failed."""
    line = produced = duplicates = failed = 0
    for batch in batches(messages):
        for result in sender.send_batch(batch):
            line += 1
            if "error" not in result:
                produced += 1
                duplicates += bool(result.get("duplicate"))
                continue
            failed += 1
            if failed <= ERRORS_SHOWN:
                say_error(f"line {line}: {result['message']} ({result['error']})")
        progress.show(count=produced, read_bytes=lines.read_bytes)
    if as_json:
        say_json({"produced": produced, "duplicates": duplicates, "failed": failed})
    else:
        say(f"{produced} produced, {duplicates} of them duplicates, {failed} failed")
    return failed
