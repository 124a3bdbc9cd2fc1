"""Many messages or acks in one request: one durable write, a result for each in order.

The whole body is decoded at once. Only when that fails is it decoded message by message, so that an invalid
one gets its own error and the others go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from functools import lru_cache, partial
from itertools import chain
from typing import NamedTuple, cast

import msgspec

from driftq.core.commands import Ack, Produce
from driftq.core.decide.produce import Accepted, Outcome
from driftq.errors import DriftQError, FailedPrecondition, InvalidArgument
from driftq.http.api.params import Form, body_problem, check_count, check_name, decode, read_many
from driftq.http.messages.handlers import produced, read_message, whole_message
from driftq.http.messages.tenants import of_tenant, topics_of, within_tenant
from driftq.http.messages.tracing import traced
from driftq.http.wire.exchange import (
    Exchange,
    count_refusals,
    error_body,
    error_fields,
    error_headers,
    reply_each,
)
from driftq.model.wire.messages import AckBatchBody, AckBatchParts, AckPart
from driftq.model.wire.produce import BatchBody, BatchParts, BatchQuery, BatchReply, ProduceBody
from driftq.server.produce.prepare import Produced, are_simple, prepare_all
from driftq.server.requests import AckRequest, ManyRequest, ProduceRequest, StoredRun
from driftq.server.routing.service import RoutingService

QUERY = Form(BatchQuery)
_decode = msgspec.json.Decoder(BatchBody).decode
_parts = msgspec.json.Decoder(BatchParts)
_decode_lines = msgspec.json.Decoder(ProduceBody).decode_lines
_encode = msgspec.json.Encoder().encode
ACK_BATCH = Form(AckBatchBody)
_ack_parts = msgspec.json.Decoder(AckBatchParts)
_decode_ack = msgspec.json.Decoder(AckPart).decode

_ACCEPTED = b'{"status":"produced","topic":"%b","partition":%%d,"offset":%%d,"duplicate":false}'
_NOT_STORED = FailedPrecondition("not stored: another message of this atomic batch was refused")


class ParsedBatch(NamedTuple):
    """The messages that could be decoded, and the errors of the others by index."""

    messages: list[Produced]
    errors: dict[int, DriftQError]
    atomic: bool
    brief: bool = False
    """The reply may leave out what the client can derive."""


def produce_batch(exchange: Exchange) -> None:
    asked = QUERY.from_query(exchange.query)
    batch = _read(exchange, asked)._replace(brief=asked.brief is True)
    if exchange.traceparent is not None:
        trace = exchange.traceparent
        batch = batch._replace(messages=[traced(message, trace) for message in batch.messages])
    limit = exchange.edge.options.batch_max
    if len(batch.messages) + len(batch.errors) > limit:
        raise InvalidArgument("messages", f"at most {limit} in one request")
    if exchange.tenant is not None:
        batch = batch._replace(messages=[of_tenant(exchange, message) for message in batch.messages])
    routing = exchange.edge.routing
    if routing is not None and any(routing.wants(message.topic) for message in batch.messages):
        exchange.edge.spawn(exchange, _route(exchange, routing, batch))
    else:
        _store(exchange, batch)


# Reading


def _read(exchange: Exchange, query: BatchQuery) -> ParsedBatch:
    body = exchange.body
    in_process = exchange.edge.options.in_process
    if exchange.content_type[:20].lower() == b"application/x-ndjson":
        return _read_lines(body, atomic=query.atomic is True, in_process=in_process)
    try:
        whole = _decode(body)
    except (ValueError, RecursionError):
        parts = decode(_parts, body)
        atomic = query.atomic if parts.atomic is None else parts.atomic
        return _read_parts(parts.messages, atomic=atomic is True, in_process=in_process)
    atomic = query.atomic if whole.atomic is None else whole.atomic
    return ParsedBatch(cast("list[Produced]", whole.messages), {}, atomic is True)


def _read_lines(body: bytes, *, atomic: bool, in_process: bool) -> ParsedBatch:
    try:
        return ParsedBatch(cast("list[Produced]", _decode_lines(body)), {}, atomic)
    except (ValueError, RecursionError):
        parts = [line for line in body.split(b"\n") if line.strip()]
        return _read_parts(parts, atomic=atomic, in_process=in_process)


def _read_parts(parts: list[msgspec.Raw] | list[bytes], *, atomic: bool, in_process: bool) -> ParsedBatch:
    messages: list[Produced] = []
    errors: dict[int, DriftQError] = {}
    for slot, part in enumerate(parts):
        try:
            messages.append(read_message(part, in_process=in_process))
        except InvalidArgument as refused:
            errors[slot] = refused
    return ParsedBatch(messages, errors, atomic)


def topics_produced(exchange: Exchange) -> Iterable[str]:
    """The topics of all messages that can be decoded; the others are not stored."""
    batch = _read(exchange, QUERY.from_query(exchange.query))
    return {topic for message in batch.messages for topic in topics_of(message)}


async def _route(exchange: Exchange, routing: RoutingService, batch: ParsedBatch) -> None:
    places = [place for place, message in enumerate(batch.messages) if routing.wants(message.topic)]
    wholes = [whole_message(batch.messages[place]) for place in places]
    with routing.holding(wholes) as refused:
        routed = await asyncio.gather(
            *[routing.route(whole) for whole, error in zip(wholes, refused, strict=True) if error is None]
        )
        ways = iter(routed)
        unrouted = iter([whole for whole, error in zip(wholes, refused, strict=True) if error is None])
        refusals: dict[int, DriftQError] = {}
        messages = list(batch.messages)
        for place, error in zip(places, refused, strict=True):
            if error is None:
                messages[place] = within_tenant(exchange, next(ways), next(unrouted))
            else:
                refusals[place] = error
        _add_errors(batch.errors, [refusals.get(place) for place in range(len(messages))])
        kept = [message for place, message in enumerate(messages) if place not in refusals]
        _store(exchange, batch._replace(messages=kept))


# Storing


def _store(exchange: Exchange, batch: ParsedBatch) -> None:
    errors, messages = batch.errors, batch.messages
    size_bytes = len(exchange.body)
    if messages and not (errors or batch.atomic) and are_simple(messages, size_bytes=size_bytes):
        exchange.edge.engine.submit(ManyRequest(messages, size_bytes, partial(_stored_run, exchange, batch)))
        return
    prepared = prepare_all(batch.messages, at=exchange.edge.clock.now())
    commands = [command for command in prepared if type(command) is Produce]
    if len(commands) < len(prepared):
        _add_errors(errors, prepared)
    reply = partial(_stored, exchange, batch, [command.topic for command in commands])
    if not commands:
        reply([])
        return
    doomed = batch.atomic and bool(errors)
    exchange.edge.engine.submit(ProduceRequest(commands, reply, atomic=batch.atomic, doomed=doomed))


def _add_errors(errors: dict[int, DriftQError], outcomes: Sequence[object]) -> None:
    """Merge the errors of decoded messages with those of the others, by index."""
    places = [slot for slot in range(len(outcomes) + len(errors)) if slot not in errors]
    for slot, outcome in zip(places, outcomes, strict=True):
        if isinstance(outcome, DriftQError):
            errors[slot] = outcome


def _stored_run(
    exchange: Exchange, batch: ParsedBatch, answer: StoredRun | list[Outcome] | DriftQError
) -> None:
    """The answer to simple messages: where all of them are, or what became of each."""
    if isinstance(answer, StoredRun):
        topic, partitions, first = answer
        if batch.brief:
            exchange.reply_ok(_in_brief(topic, partitions, first))
        else:
            places = zip(partitions, range(first, first + len(partitions)), strict=True)
            exchange.reply_ok(_accepted(topic, len(partitions)) % tuple(chain.from_iterable(places)))
    else:
        _stored(exchange, batch, [message.topic for message in batch.messages], answer)


def _stored(
    exchange: Exchange, batch: ParsedBatch, topics: list[str], outcomes: list[Outcome] | DriftQError
) -> None:
    if isinstance(outcomes, DriftQError):
        exchange.reply_error(outcomes)
        return
    errors = batch.errors
    if not errors and set(map(type, outcomes)) == {tuple}:
        exchange.reply_ok(_all_accepted(topics, cast("list[Accepted]", outcomes), brief=batch.brief))
        return
    results: list[Outcome] = list(outcomes)
    placed: list[str | None] = list(topics)
    for slot, error in sorted(errors.items()):
        results.insert(slot, error)
        placed.insert(slot, None)
    refused = [result for result in results if isinstance(result, DriftQError)]
    count_refusals(exchange, refused)
    if batch.atomic and refused:
        _refuse(exchange, results, refused[0])
        return
    texts = [
        produced(topic, result)
        if topic is not None and not isinstance(result, DriftQError)
        else error_body(result if isinstance(result, DriftQError) else _NOT_STORED)
        for topic, result in zip(placed, results, strict=True)
    ]
    exchange.reply_ok(_body(len(texts) - len(refused), len(refused), texts))


def _all_accepted(topics: list[str], outcomes: list[Accepted], *, brief: bool) -> bytes:
    """The usual case: nothing but new messages, most often of one topic."""
    topic = topics[0]
    if topics.count(topic) == len(topics):
        if brief:
            return _in_brief(topic, [partition for partition, _ in outcomes], outcomes[0][1])
        return _accepted(topic, len(topics)) % tuple(chain.from_iterable(outcomes))
    texts = [produced(topic, outcome) for topic, outcome in zip(topics, outcomes, strict=True)]
    return _body(len(texts), 0, texts)


def _in_brief(topic: str, partitions: Sequence[int], first_offset: int) -> bytes:
    """The messages that one request stores in a topic get consecutive offsets."""
    alone = partitions.count(partitions[0]) == len(partitions)
    return _encode(
        BatchReply(
            produced=len(partitions),
            failed=0,
            topic=topic,
            first_offset=first_offset,
            partition=partitions[0] if alone else None,
            partitions=None if alone else list(partitions),
        )
    )


@lru_cache(maxsize=16)
def _accepted(topic: str, count: int) -> bytes:
    """The reply for `count` new messages of a topic, with placeholders for partition and offset of each."""
    return _body(count, 0, [_ACCEPTED % topic.encode()] * count)


def _body(stored: int, failed: int, texts: list[bytes]) -> bytes:
    return b'{"produced":%d,"failed":%d,"results":[%b]}' % (stored, failed, b",".join(texts))


def _refuse(exchange: Exchange, results: list[Outcome], first: DriftQError) -> None:
    """An atomic batch of which nothing was stored."""
    fields = error_fields(first) | {
        "produced": 0,
        "failed": len(results),
        "results": [
            error_fields(result if isinstance(result, DriftQError) else _NOT_STORED) for result in results
        ],
    }
    exchange.reply(exchange.edge.heads.whole(first.status, _encode(fields), extra=error_headers(first)))


def ack_batch(exchange: Exchange) -> None:
    """Many acks of one owner; an invalid one fails alone."""
    errors: dict[int, DriftQError] = {}
    asked = read_many(exchange, ACK_BATCH, _ack_parts)
    if isinstance(asked, AckBatchBody):
        acks = [Ack(asked.owner, one.partition, one.offset, one.attempt) for one in asked.acks]
    else:
        acks, errors = _read_acks(asked)
    check_count(exchange, "acks", len(asked.acks))
    check_name("group", asked.group)
    check_name("owner", asked.owner)
    reply = partial(reply_each, exchange, b'{"status":"acked"}', errors)
    exchange.edge.engine.submit(AckRequest(asked.topic, asked.group, acks, reply))


def topics_acked(exchange: Exchange) -> Iterable[str]:
    return (read_many(exchange, ACK_BATCH, _ack_parts).topic,)


def _read_acks(batch: AckBatchParts) -> tuple[list[Ack], dict[int, DriftQError]]:
    """The acks that could be decoded, and the errors of the others by index."""
    acks: list[Ack] = []
    errors: dict[int, DriftQError] = {}
    for slot, part in enumerate(batch.acks):
        try:
            ack = _decode_ack(part)
        except (ValueError, RecursionError) as error:
            errors[slot] = body_problem(error)
        else:
            acks.append(Ack(batch.owner, ack.partition, ack.offset, ack.attempt))
    return acks, errors
