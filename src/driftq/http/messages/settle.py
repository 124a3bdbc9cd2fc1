"""Ack, nack, lease extension and batch ack."""

from functools import partial

import msgspec

from driftq.core.commands import Ack, Extend, Nack
from driftq.errors import DriftQError
from driftq.http.api.params import Form, body_problem, check_name
from driftq.http.messages.outcomes import check_count, read_many, reply_each, reply_only, reply_outcome
from driftq.http.wire.exchange import Exchange
from driftq.model.wire.settle import AckBatchBody, AckBatchParts, AckBody, AckPart, ExtendBody, NackBody
from driftq.server.requests import AckRequest, ExtendRequest, NackRequest

ACK = Form(AckBody)
NACK = Form(NackBody)
EXTEND = Form(ExtendBody)
ACK_BATCH = Form(AckBatchBody)
_parts = msgspec.json.Decoder(AckBatchParts)
_decode_part = msgspec.json.Decoder(AckPart).decode


def ack(exchange: Exchange) -> None:
    asked = ACK.read(exchange.body, exchange.query)
    check_name("group", asked.group)
    check_name("owner", asked.owner)
    mine = Ack(asked.owner, asked.partition, asked.offset, asked.attempt)
    exchange.edge.engine.ack(AckRequest(asked.topic, asked.group, [mine], partial(reply_only, exchange)))


def nack(exchange: Exchange) -> None:
    asked = NACK.read(exchange.body, exchange.query)
    check_name("group", asked.group)
    check_name("owner", asked.owner)
    mine = Nack(
        asked.owner,
        asked.partition,
        asked.offset,
        reason=asked.reason or "",
        attempt=asked.attempt,
        retryable=asked.retryable is not False,
        started=asked.started is not False,
    )
    exchange.edge.engine.ask(NackRequest(asked.topic, asked.group, mine, partial(reply_outcome, exchange)))


def extend(exchange: Exchange) -> None:
    asked = EXTEND.read(exchange.body, exchange.query)
    check_name("group", asked.group)
    check_name("owner", asked.owner)
    mine = Extend(asked.owner, asked.partition, asked.offset, asked.lease_ms, asked.attempt)
    exchange.edge.engine.ask(ExtendRequest(asked.topic, asked.group, mine, partial(reply_outcome, exchange)))


def ack_batch(exchange: Exchange) -> None:
    """Many acks of one owner; a bad one fails alone."""
    errors: dict[int, DriftQError] = {}
    asked = read_many(exchange, ACK_BATCH, _parts)
    if isinstance(asked, AckBatchBody):
        acks = [Ack(asked.owner, one.partition, one.offset, one.attempt) for one in asked.acks]
    else:
        acks, errors = _read_parts(asked)
    check_count(exchange, "acks", len(asked.acks))
    check_name("group", asked.group)
    check_name("owner", asked.owner)
    reply = partial(reply_each, exchange, b'{"status":"acked"}', errors)
    exchange.edge.engine.ack(AckRequest(asked.topic, asked.group, acks, reply))


def _read_parts(batch: AckBatchParts) -> tuple[list[Ack], dict[int, DriftQError]]:
    """The acks that can be read, and by their place the errors of the others."""
    acks: list[Ack] = []
    errors: dict[int, DriftQError] = {}
    for slot, part in enumerate(batch.acks):
        try:
            ack = _decode_part(part)
        except (ValueError, RecursionError) as error:
            errors[slot] = body_problem(error)
        else:
            acks.append(Ack(batch.owner, ack.partition, ack.offset, ack.attempt))
    return acks, errors
