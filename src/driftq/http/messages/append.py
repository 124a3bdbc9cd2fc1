"""Appending by position: POST /v1/topics/{topic}/append, and the writers that do it.

The router is not called: a writer names the target itself, and a repeated append must reach the same target.
"""

from __future__ import annotations

from typing import NamedTuple

from driftq.core.commands import AppendByPosition, Produce
from driftq.core.decide.positions import AppendedMessages, OpenedWriter
from driftq.errors import InvalidArgument
from driftq.http.api.params import Form, check_name
from driftq.http.messages.handlers import to_envelope
from driftq.http.messages.tenants import with_tenant
from driftq.http.wire.exchange import Exchange
from driftq.model import Envelope
from driftq.model.wire.append import AppendBody, AppendMessage, AppendReceipt, OpenWriter, WriterBody
from driftq.server.produce.prepare import Produced, prepare_all
from driftq.server.requests import AppendRequest, WriterRequest

APPEND = Form(AppendBody)
WRITER = Form(WriterBody)


class _Message(NamedTuple):
    """A message in the broker's form."""

    topic: str
    key: str
    value: str
    envelope: Envelope | None
    routing: None = None
    headers: dict[str, str] | None = None


def append(exchange: Exchange) -> None:
    if not exchange.body:
        raise InvalidArgument("", "the messages must be given in a JSON body")
    asked = APPEND.read(exchange.body, exchange.query)
    check_name("writer", asked.writer)
    limit = exchange.edge.options.batch_max
    if len(asked.messages) > limit:
        raise InvalidArgument("messages", f"at most {limit} in one request")
    command = AppendByPosition(
        topic=exchange.topic,
        writer=asked.writer,
        lane=asked.lane,
        epoch=asked.epoch,
        positions=[message.position for message in asked.messages],
        messages=_prepared(exchange, asked.messages),
        after=asked.after,
    )

    def send(done: AppendedMessages) -> None:
        exchange.reply_json(AppendReceipt(done.appended, done.skipped, done.position))

    exchange.edge.engine.submit(AppendRequest(command.messages, exchange.answering(send), append=command))


def _prepared(exchange: Exchange, given: list[AppendMessage]) -> list[Produce]:
    """The messages as they will be stored; raises InvalidArgument for the first that cannot be."""
    messages: list[Produced] = []
    for message in given:
        if message.envelope is not None and message.envelope.target_topic is not None:
            raise InvalidArgument("target_topic", "an append goes to the topic of its path")
        stamped = message.envelope if exchange.tenant is None else with_tenant(exchange, message.envelope)
        envelope = None if stamped is None else to_envelope(stamped)
        messages.append(
            _Message(exchange.topic, message.key, message.value, envelope, headers=message.headers)
        )
    commands: list[Produce] = []
    for command in prepare_all(messages, at=exchange.edge.clock.now()):
        if isinstance(command, InvalidArgument):
            raise command
        commands.append(command)
    return commands


def open_writer(exchange: Exchange) -> None:
    asked = WRITER.read(exchange.body, exchange.query)
    check_name("writer", asked.writer)

    def send(opened: OpenedWriter) -> None:
        exchange.reply_json(OpenWriter(opened.epoch, opened.lanes))

    reply = exchange.answering(send)
    exchange.edge.engine.submit(WriterRequest(exchange.topic, asked.writer, asked.epoch, reply))
