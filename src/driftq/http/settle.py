"""Ack, nack, lease extension and batch ack."""

from functools import partial

import msgspec

from driftq.core.commands import Ack, Extend, Nack
from driftq.errors import DriftQError, InvalidArgument
from driftq.http.answers import error_body
from driftq.http.exchange import Exchange
from driftq.http.params import Form, body_problem, check_name, decode
from driftq.http.schemas import AckBatchBody, AckBatchParts, AckBody, AckPart, ExtendBody, NackBody
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
    exchange.edge.engine.ack(AckRequest(asked.topic, asked.group, [mine], partial(_acked, exchange)))


def _acked(exchange: Exchange, outcomes: list[DriftQError | None] | DriftQError) -> None:
    outcome = outcomes if isinstance(outcomes, DriftQError) else outcomes[0]
    _settled(exchange, outcome)


def _settled(exchange: Exchange, outcome: DriftQError | None) -> None:
    if outcome is None:
        exchange.reply_done()
    else:
        exchange.reply_error(outcome)


def nack(exchange: Exchange) -> None:
    asked = NACK.read(exchange.body, exchange.query)
    check_name("group", asked.group)
    check_name("owner", asked.owner)
    retryable = asked.retryable is not False
    mine = Nack(asked.owner, asked.partition, asked.offset, asked.reason or "", asked.attempt, retryable)
    exchange.edge.engine.ask(NackRequest(asked.topic, asked.group, mine, partial(_settled, exchange)))


def extend(exchange: Exchange) -> None:
    asked = EXTEND.read(exchange.body, exchange.query)
    check_name("group", asked.group)
    check_name("owner", asked.owner)
    mine = Extend(asked.owner, asked.partition, asked.offset, asked.lease_ms, asked.attempt)
    exchange.edge.engine.ask(ExtendRequest(asked.topic, asked.group, mine, partial(_settled, exchange)))


def ack_batch(exchange: Exchange) -> None:
    """Many acks of one owner; a bad one fails alone."""
    errors: dict[int, DriftQError] = {}
    asked: AckBatchBody | AckBatchParts
    try:
        asked = ACK_BATCH.read(exchange.body, exchange.query)
        acks = [Ack(asked.owner, one.partition, one.offset, one.attempt) for one in asked.acks]
    except InvalidArgument:
        if not exchange.body:
            raise
        ACK_BATCH.check_query(exchange.query)
        asked = decode(_parts, exchange.body)
        acks, errors = _read_parts(asked)
    if len(asked.acks) > exchange.edge.options.batch_max:
        raise InvalidArgument("acks", f"at most {exchange.edge.options.batch_max} in one request")
    check_name("group", asked.group)
    check_name("owner", asked.owner)
    reply = partial(_batch_acked, exchange, errors)
    exchange.edge.engine.ack(AckRequest(asked.topic, asked.group, acks, reply))


def _read_parts(asked: AckBatchParts) -> tuple[list[Ack], dict[int, DriftQError]]:
    """The acks that can be read, and by their place the errors of the others."""
    acks: list[Ack] = []
    errors: dict[int, DriftQError] = {}
    for slot, part in enumerate(asked.acks):
        try:
            one = _decode_part(part)
        except (ValueError, RecursionError) as error:
            errors[slot] = body_problem(error)
        else:
            acks.append(Ack(asked.owner, one.partition, one.offset, one.attempt))
    return acks, errors


def _batch_acked(
    exchange: Exchange, errors: dict[int, DriftQError], outcomes: list[DriftQError | None] | DriftQError
) -> None:
    if isinstance(outcomes, DriftQError):
        exchange.reply_error(outcomes)
        return
    results = list(outcomes)
    for slot, error in sorted(errors.items()):
        results.insert(slot, error)
    texts = [b'{"status":"acked"}' if result is None else error_body(result) for result in results]
    exchange.reply_ok(b'{"results":[%b]}' % b",".join(texts))
