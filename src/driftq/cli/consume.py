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
"""An ack makes room for another message, which is on its way when the ack is answered."""
CONSUME_EXAMPLES = examples(
    "driftq consume orders --group billing --max 1",
    "driftq consume orders --group billing --where key=user:1 --pretty --max 1",
)


def consume(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.")],
    group: Annotated[str, typer.Option("--group", "-g", help="Who shares the messages.")],
    owner: Annotated[
        str | None, typer.Option("--owner", "-o", help="Who holds them; made up if not given.")
    ] = None,
    most: Annotated[int | None, typer.Option("--max", "-n", min=1, help="Stop after so many.")] = None,
    ack: Annotated[
        bool, typer.Option("--ack/--no-ack", help="Ack each one once printed, or leave that to `driftq ack`.")
    ] = True,
    lease_ms: Annotated[int | None, typer.Option("--lease-ms", help="How long each one stays yours.")] = None,
    where: Annotated[
        list[str] | None,
        typer.Option("--where", metavar="FIELD=TEXT", help="Print only these; `key` or a field of the JSON."),
    ] = None,
    pretty: Annotated[bool, typer.Option("--pretty", help="Print JSON values over several lines.")] = False,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Print messages and ack them. Ends at --max or Ctrl-C; with --where the others are acked unseen."""
    wanted = ValueFilter(where or [])
    address = load_url(url)
    owner = owner or f"cli-{socket.gethostname()}-{os.getpid()}"
    query = {
        "topic": topic,
        "group": group,
        "owner": owner,
        "lease_ms": lease_ms,
        "prefetch": min(most or PREFETCH, PREFETCH) if ack else most,
        # What is acked here needs no lease beyond the stream; what is not waits for its owner's `driftq ack`.
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
                    if printed == most:
                        stopped = True
                        break
        except KeyboardInterrupt:
            stopped = True
        if stopped and stream is not None:
            _give_back(stream, settling, topic=topic, group=group, owner=owner, releases=ack)
    note = "" if stopped else "; the server ended the stream"
    say_aside(f"{printed} message{'s' if printed != 1 else ''}{note}")
    if not ack and printed:
        say_aside(f"held by owner {owner} until acked or the lease ends")


def _ack(settling: Connection, delivery: dict[str, Any], *, topic: str, group: str, owner: str) -> None:
    try:
        settling.post("/v1/ack", {"topic": topic, "group": group, "owner": owner, **_place(delivery)})
    except FailedPrecondition as refused:
        say_aside(f"offset {delivery['offset']} could not be acked ({refused.message}) and will come again")


def _give_back(
    stream: BlockingResponse, settling: Connection, *, topic: str, group: str, owner: str, releases: bool
) -> None:
    """What came and was not printed costs no try: closing the stream alone would count it as one.

    A stream that does not release what it holds is ended first, so that nothing comes back to it.
    """
    with suppress(KeyboardInterrupt, ServerUnreachable):
        for line in stream.remaining_lines(within_s=_LEFTOVERS_S, end_stream=not releases):
            place = _place(json.loads(line))
            nack = {"topic": topic, "group": group, "owner": owner, **place, "started": False}
            try:
                settling.post("/v1/nack", nack)
            except ServerUnreachable:
                raise
            except DriftQError:
                pass  # Its lease has ended: the server delivers it to another owner.


def _place(delivery: dict[str, Any]) -> dict[str, int]:
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
    """What only some deliveries have, in short."""
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
