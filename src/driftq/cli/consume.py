"""`driftq consume`: receive messages, print them, ack them."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Annotated, Any

import typer

from driftq.cli.connection import Connection
from driftq.cli.screen import Json, Url, examples, say, say_aside
from driftq.cli.values import ValueFilter, indented
from driftq.errors import DriftQError, FailedPrecondition, ServerUnreachable
from driftq.settings import load_url
from driftq.transport.blocking import BlockingResponse

PREFETCH = 100
_LEFTOVERS_S = 0.1
"""An ack makes room for another message, which may still be arriving."""
CONSUME_EXAMPLES = examples(
    "driftq consume orders --group billing --max 1",
    "driftq consume orders --group billing --where key=user:1 --pretty --max 1",
)


def consume(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.")],
    group: Annotated[str, typer.Option("--group", "-g", help="The consumer group.")],
    owner: Annotated[
        str | None, typer.Option("--owner", "-o", help="The owner of the leases; made up if not given.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--max", "-n", min=1, help="Stop after this many messages.")
    ] = None,
    ack: Annotated[
        bool,
        typer.Option(
            "--ack/--no-ack", help="Ack each message after printing it, or leave that to `driftq ack`."
        ),
    ] = True,
    lease_ms: Annotated[int | None, typer.Option("--lease-ms", help="The lease of each message.")] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            "--where",
            metavar="FIELD=TEXT",
            help="Print only matching messages; `key`, or a field of the JSON value.",
        ),
    ] = None,
    pretty: Annotated[bool, typer.Option("--pretty", help="Print JSON values over several lines.")] = False,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Print messages and ack them, until --max or Ctrl-C. With --where, others are acked unprinted."""
    wanted = ValueFilter(where or [])
    address = load_url(url)
    owner = owner or f"cli-{socket.gethostname()}-{os.getpid()}"
    query = {
        "topic": topic,
        "group": group,
        "owner": owner,
        "lease_ms": lease_ms,
        "prefetch": min(limit or PREFETCH, PREFETCH) if ack else limit,
        # With --ack no lease has to outlive the stream; with --no-ack they wait for `driftq ack`.
        "release_on_close": "true" if ack else None,
    }
    printed = 0
    stopped = False
    stream: BlockingResponse | None = None
    with Connection(address, timeout_s=None) as consuming, Connection(address) as settling:
        try:
            with _ended_by_terminate():
                stream = consuming.stream("/v1/consume", query)
                for line in stream.lines():
                    delivery = json.loads(line)
                    if wanted.has(delivery):
                        _print(line, delivery, as_json=as_json, pretty=pretty)
                        printed += 1
                    elif not ack:
                        continue
                    if ack:
                        _ack(settling, delivery, topic=topic, group=group, owner=owner)
                    if printed == limit:
                        stopped = True
                        break
        except KeyboardInterrupt:
            stopped = True
        if stopped and stream is not None:
            _give_back(stream, settling, topic=topic, group=group, owner=owner, releases=ack)
    note = "" if stopped else "; the server ended the stream"
    say_aside(f"{printed} message{'s' if printed != 1 else ''}{note}")
    if not ack and printed:
        say_aside(f"leased to owner {owner} until they are acked or the lease ends")


def _ack(settling: Connection, delivery: dict[str, Any], *, topic: str, group: str, owner: str) -> None:
    try:
        settling.post(
            "/v1/ack", {"topic": topic, "group": group, "owner": owner, **_delivery_fields(delivery)}
        )
    except FailedPrecondition as refused:
        say_aside(
            f"offset {delivery['offset']} was not acked ({refused.message}); the server will redeliver it"
        )


def _give_back(
    stream: BlockingResponse, settling: Connection, *, topic: str, group: str, owner: str, releases: bool
) -> None:
    """Nack deliveries that were not printed as not started: closing the stream alone would count an attempt.

    A stream that does not release its deliveries is ended first, so that they are not redelivered to it.
    """
    with suppress(KeyboardInterrupt, ServerUnreachable):
        for line in stream.remaining_lines(within_s=_LEFTOVERS_S, end_stream=not releases):
            fields = _delivery_fields(json.loads(line))
            nack = {"topic": topic, "group": group, "owner": owner, **fields, "started": False}
            try:
                settling.post("/v1/nack", nack)
            except ServerUnreachable:
                raise
            except DriftQError:
                pass  # Its lease has ended: the server delivers it to another owner.


def _delivery_fields(delivery: dict[str, Any]) -> dict[str, int]:
    return {
        "partition": delivery["partition"],
        "offset": delivery["offset"],
        "attempt": delivery["attempts"],
    }


def _print(line: bytes, delivery: dict[str, Any], *, as_json: bool, pretty: bool) -> None:
    if as_json:
        say(line.decode().rstrip("\n"))
    else:
        head = (
            f"partition {delivery['partition']}  offset {delivery['offset']}  attempt {delivery['attempts']}"
        )
        for name, shown in _extras(delivery):
            head += f"  {name} {shown}"
        value = indented(delivery["value"]) if pretty else delivery["value"]
        say(f"{typer.style(head, dim=True)}\n{value}")
    sys.stdout.flush()  # Printed comes before acked.


def _extras(delivery: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The optional fields of a delivery, in short."""
    envelope = delivery.get("envelope", {})
    if delivery.get("key"):
        yield "key", delivery["key"]
    if delivery.get("last_error"):
        yield "last error", json.dumps(delivery["last_error"], ensure_ascii=False)
    for name, field in (("run", "run_id"), ("step", "step_id"), ("tenant", "tenant_id")):
        if envelope.get(field):
            yield name, envelope[field]
    if delivery.get("routing", {}).get("label"):
        yield "label", delivery["routing"]["label"]


@contextmanager
def _ended_by_terminate() -> Iterator[None]:
    """SIGTERM ends the stream as Ctrl-C does."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
