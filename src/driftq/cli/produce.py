"""`driftq produce`: one message, or a message per line or row of a file."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import typer

from driftq.cli.connection import Connection
from driftq.cli.lines import InputLines
from driftq.cli.progress import ProgressBar
from driftq.cli.rows import Format, InputRow, InputRows
from driftq.cli.screen import Json, Url, examples, say, say_aside, say_error, say_json
from driftq.cli.sending import Message, Sender, batches
from driftq.errors import DriftQError
from driftq.made_up_key import MADE_UP_PREFIX
from driftq.settings import load_url

RETRIES = 4
ERRORS_SHOWN = 10
PRODUCE_EXAMPLES = examples(
    'driftq produce orders "two coffees" --key user:1 --header source=bar',
    """driftq produce orders '{"drink": "tea"}' --format ndjson --key-field drink""",
    "driftq produce orders --file orders.csv --format csv --key-field user",
)


@dataclass(slots=True)
class Tally:
    """The messages of a file so far, by outcome."""

    produced: int = 0
    duplicates: int = 0
    failed: int = 0


def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.")],
    value: Annotated[
        str | None, typer.Argument(metavar="[VALUE]", help="The payload of one message.")
    ] = None,
    file: Annotated[
        str | None,
        typer.Option("--file", "-f", metavar="FILE|-", help="Send one message per line; - is stdin."),
    ] = None,
    kind: Annotated[
        Format,
        typer.Option("--format", help="Plain lines, JSON lines, or CSV with a header line."),
    ] = "lines",
    key: Annotated[str, typer.Option("--key", "-k", help="The key; it selects the partition.")] = "",
    key_field: Annotated[
        str | None, typer.Option("--key-field", help="With ndjson and csv: the field to take the key from.")
    ] = None,
    run_id: Annotated[
        str | None, typer.Option("--run-id", help="The run that the message belongs to.")
    ] = None,
    step_id: Annotated[str | None, typer.Option("--step-id", help="The step of the run.")] = None,
    parent_step_id: Annotated[
        str | None, typer.Option("--parent-step-id", help="The step that caused this one.")
    ] = None,
    tenant: Annotated[
        str | None, typer.Option("--tenant", help="The tenant that the message belongs to.")
    ] = None,
    idempotency_key: Annotated[
        str | None,
        typer.Option(
            "--idempotency-key", help="Store the message once under this key; with --file: KEY-1, KEY-2, …"
        ),
    ] = None,
    target_topic: Annotated[
        str | None, typer.Option("--target-topic", help="Store the message in this topic instead.")
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", help="The partition, instead of the one of the key.")
    ] = None,
    deadline: Annotated[
        str | None,
        typer.Option(
            "--deadline", metavar="RFC3339", help="After this time the message becomes a dead letter."
        ),
    ] = None,
    deliver_at: Annotated[
        str | None,
        typer.Option(
            "--deliver-at", metavar="RFC3339", help="No consumer gets the message before this time."
        ),
    ] = None,
    delay: Annotated[
        float | None,
        typer.Option("--delay", min=0, metavar="SECONDS", help="Deliver it no sooner than this from now."),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", metavar="NAME=VALUE", help="A header of the message; may be repeated."),
    ] = None,
    retries: Annotated[
        int,
        typer.Option(
            "--retries",
            min=0,
            help="Retries under an idempotency key, made up if none is given; 0: no retries, no key.",
        ),
    ] = RETRIES,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Send a message, or one per line of a file. A confirmed message is durable."""
    if (value is None) == (file is None):
        raise typer.BadParameter("give either a VALUE or --file")
    if key_field is not None and kind == "lines":
        raise typer.BadParameter("--key-field goes with --format ndjson or csv")
    if value is not None and kind == "csv":
        raise typer.BadParameter("--format csv goes with --file: a VALUE has no header line")
    if delay is not None:
        if deliver_at is not None:
            raise typer.BadParameter("give either --delay or --deliver-at")
        deliver_at = (dt.datetime.now(dt.UTC) + dt.timedelta(seconds=delay)).isoformat()
    base_key = f"{MADE_UP_PREFIX}{uuid.uuid4()}" if idempotency_key is None and retries else idempotency_key
    envelope = {
        "run_id": run_id,
        "step_id": step_id,
        "parent_step_id": parent_step_id,
        "tenant_id": tenant,
        "target_topic": target_topic,
        "partition_override": partition,
        "deadline": deadline,
        "deliver_at": deliver_at,
    }
    given = {name: setting for name, setting in envelope.items() if setting is not None}
    headers = _headers(header or [])
    with Connection(load_url(url)) as connection:
        sender = Sender(connection, retries=retries)
        if value is not None:
            row = _row(value, kind, key_field)
            message = _message(topic, row.value, row.key or key, given, base_key, headers)
            _send(sender, message, as_json=as_json)
            return
        assert file is not None
        lines = InputLines(file)
        rows = InputRows(lines, kind, key_field=key_field)
        messages = (
            _message(
                topic,
                row.value,
                key if row.key is None else row.key,
                given,
                f"{base_key}-{number}" if base_key else None,
                headers,
            )
            for number, row in enumerate(rows, start=1)
        )
        tally = Tally()
        try:
            with ProgressBar(file) as progress:
                _send_all(sender, messages, lines, progress, tally)
        except (KeyboardInterrupt, DriftQError) as cut:
            _print_tally(tally, as_json=as_json, interrupted=True)
            _print_how_to_resume(tally, base_key, made_up=idempotency_key is None)
            if isinstance(cut, KeyboardInterrupt):
                raise typer.Exit(130) from None
            raise
    problem = lines.problem or rows.problem
    if problem and tally == Tally():
        say_error(f"{problem}; nothing was sent")
        raise typer.Exit(1)
    _print_tally(tally, as_json=as_json)
    if problem:
        say_error(f"{problem}; nothing after it was sent")
    if tally.failed or problem:
        raise typer.Exit(1)


def _row(value: str, kind: Format, key_field: str | None) -> InputRow:
    """A VALUE as one row of its format."""
    rows = InputRows([value], kind, key_field=key_field)
    found = list(rows)
    if rows.problem is not None:
        raise typer.BadParameter(f"VALUE: {rows.problem.removeprefix('line 1: ')}")
    if not found:
        raise typer.BadParameter("VALUE: not JSON: it is empty")
    return found[0]


def _headers(given: list[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"--header {one}: write it as NAME=VALUE")
        if name in headers:
            raise typer.BadParameter(f"--header {name} is given more than once")
        headers[name] = value
    return headers


def _message(
    topic: str,
    value: str,
    key: str,
    envelope: dict[str, Any],
    idempotency_key: str | None,
    headers: dict[str, str],
) -> Message:
    if idempotency_key is not None:
        envelope = {**envelope, "idempotency_key": idempotency_key}
    message: Message = {"topic": topic, "key": key, "value": value}
    if envelope:
        message["envelope"] = envelope
    if headers:
        message["headers"] = headers
    return message


def _send(sender: Sender, message: Message, *, as_json: bool) -> None:
    answer = sender.send(message)
    if as_json:
        say_json(answer)
        return
    note = "; a duplicate, nothing was added" if answer.get("duplicate") else ""
    if answer.get("payload_mismatch"):
        note += "; the payload differs from the stored one"
    say(f"produced to {answer['topic']} partition {answer['partition']} offset {answer['offset']}{note}")


def _send_all(
    sender: Sender, messages: Iterator[Message], lines: InputLines, progress: ProgressBar, tally: Tally
) -> None:
    """Send all messages and count the results; an interruption between two batches leaves the tally right."""
    line = 0
    for batch in batches(messages):
        for result in sender.send_batch(batch):
            line += 1
            if "error" not in result:
                tally.produced += 1
                tally.duplicates += bool(result.get("duplicate"))
                continue
            tally.failed += 1
            if tally.failed <= ERRORS_SHOWN:
                say_error(f"line {line}: {result['message']} ({result['error']})")
        progress.show(count=tally.produced, read_bytes=lines.read_bytes)


def _print_tally(tally: Tally, *, as_json: bool, interrupted: bool = False) -> None:
    if as_json:
        say_json(asdict(tally) | ({"interrupted": True} if interrupted else {}))
    else:
        say(f"{tally.produced} produced, {tally.duplicates} of them duplicates, {tally.failed} failed")


def _print_how_to_resume(tally: Tally, key: str | None, *, made_up: bool) -> None:
    """Confirmed messages are stored; the last batch may be. Under a key, sending the file again is safe."""
    say_aside(f"stopped before the end; {tally.produced} are stored, and perhaps the last batch")
    if key is None:
        say_aside("without an idempotency key, sending the file again stores messages twice")
    elif made_up:
        say_aside(f"to resume, repeat the command with --idempotency-key {key}: no message is stored twice")
    else:
        say_aside("to resume, repeat the command with the same --idempotency-key: no message is stored twice")
