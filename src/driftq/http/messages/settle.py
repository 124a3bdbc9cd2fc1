"""Ack, nack, lease extension and batch ack."""

from functools import partial
from typing import TypeVar

import msgspec

from driftq.core.commands import Ack, Extend, Nack
from driftq.errors import DriftQError, InvalidArgument
from driftq.http.api.params import Form, body_problem, check_name, decode
from driftq.http.wire.exchange import Exchange
from driftq.http.wire.responses import error_body
from driftq.model.wire.fields import Request
from driftq.model.wire.settle import AckBatchBody, AckBatchParts, AckBody, AckPart, ExtendBody, NackBody
from driftq.server.requests import AckRequest, ExtendRequest, NackRequest

ACK = Form(AckBody)
NACK = Form(NackBody)
EXTEND = Form(ExtendBody)
ACK_BATCH = Form(AckBatchBody)
_parts = msgspec.json.Decoder(AckBatchParts)
_decode_part = msgspec.json.Decoder(AckPart).decode


Outcomes = list[DriftQError | None] | DriftQError
"""None for each that succeeded; or one error for all."""
_Whole = TypeVar("_Whole", bound=Request)
_Parts = TypeVar("_Parts", bound=Request)


def ack(exchange: Exchange) -> None:
    asked = ACK.read(exchange.body, exchange.query)
    check_name("group", asked.group)
    check_name("owner", asked.owner)
    mine = Ack(asked.owner, asked.partition, asked.offset, asked.attempt)
    exchange.edge.engine.submit(AckRequest(asked.topic, asked.group, [mine], partial(reply_only, exchange)))


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
    exchange.edge.engine.submit(NackRequest(asked.topic, asked.group, mine, partial(reply_outcome, exchange)))


def extend(exchange: Exchange) -> None:
    asked = EXTEND.read(exchange.body, exchange.query)
    check_name("group", asked.group)
    check_name("owner", asked.owner)
    mine = Extend(asked.owner, asked.partition, asked.offset, asked.lease_ms, asked.attempt)
    exchange.edge.engine.submit(
        ExtendRequest(asked.topic, asked.group, mine, partial(reply_outcome, exchange))
    )


def ack_batch(exchange: Exchange) -> None:
    """Many acks of one owner; an invalid one fails alone."""
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
    exchange.edge.engine.submit(AckRequest(asked.topic, asked.group, acks, reply))


def _read_parts(batch: AckBatchParts) -> tuple[list[Ack], dict[int, DriftQError]]:
    """The acks that could be decoded, and the errors of the others by index."""
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


# Outcomes, of jobs and effects too


def reply_outcome(exchange: Exchange, outcome: DriftQError | None) -> None:
    if outcome is None:
        exchange.reply_done()
    else:
        exchange.reply_error(outcome)


def reply_only(exchange: Exchange, outcomes: Outcomes) -> None:
    """The outcome of a request for one."""
    reply_outcome(exchange, outcomes if isinstance(outcomes, DriftQError) else outcomes[0])


def reply_each(exchange: Exchange, done: bytes, errors: dict[int, DriftQError], outcomes: Outcomes) -> None:
    """`done`, or its error, for each in order; `errors` are those, by index, that could not be decoded."""
    if isinstance(outcomes, DriftQError):
        exchange.reply_error(outcomes)
        return
    results = list(outcomes)
    for slot, error in sorted(errors.items()):
        results.insert(slot, error)
    texts = [done if result is None else error_body(result) for result in results]
    exchange.reply_ok(b'{"results":[%b]}' % b",".join(texts))


def read_many(exchange: Exchange, form: Form[_Whole], parts: msgspec.json.Decoder[_Parts]) -> _Whole | _Parts:
    """The whole body; or, when one item is invalid, the body with undecoded items, so that it fails alone."""
    try:
        return form.read(exchange.body, exchange.query)
    except InvalidArgument:
        if not exchange.body:
            raise
        form.check_query(exchange.query)
        return decode(parts, exchange.body)


def check_count(exchange: Exchange, field: str, given: int) -> None:
    if given > exchange.edge.options.batch_max:
        raise InvalidArgument(field, f"at most {exchange.edge.options.batch_max} in one request")
