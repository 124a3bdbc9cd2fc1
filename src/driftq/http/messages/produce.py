"""POST /v1/produce: one message, answered when it is durable. The hottest path of the edge."""

from functools import partial
from typing import cast

import msgspec

from driftq.core.commands import Produce
from driftq.core.decide.produce import Outcome
from driftq.errors import DriftQError, InvalidArgument
from driftq.http.api.params import Form, body_problem
from driftq.http.wire.exchange import Exchange
from driftq.model import Envelope, Message, RetryPolicy
from driftq.model.envelope import EnvelopeBody
from driftq.model.wire.produce import InProcessBody, NullableProduceBody, ProduceBody, ProduceQuery
from driftq.server.produce.prepare import Produced, prepare
from driftq.server.requests import ProduceRequest
from driftq.server.routing.service import RoutingService

QUERY = Form(ProduceQuery)
_VALUE_HINT = (
    'a value is text, so send JSON as a string, as in "value": "{\\"total\\": 12}"; '
    "the Python client encodes objects as JSON itself"
)
_decode = msgspec.json.Decoder(ProduceBody).decode
_decode_nullable = msgspec.json.Decoder(NullableProduceBody).decode
_decode_in_process = msgspec.json.Decoder(InProcessBody).decode


def produce(exchange: Exchange) -> None:
    body = exchange.body
    if body:
        if exchange.query:
            QUERY.check_query(exchange.query)
        message = read_message(body, in_process=exchange.edge.options.in_process)
    else:
        message = _from_query(QUERY.from_query(exchange.query))
    edge = exchange.edge
    if edge.routing is not None and edge.routing.wants(message.topic):
        edge.spawn(exchange, _route(exchange, edge.routing, message))
    else:
        _store(exchange, message)


async def _route(exchange: Exchange, routing: RoutingService, message: Produced) -> None:
    whole = whole_message(message)
    try:
        with routing.holding([whole]) as (refused,):
            if refused is not None:
                raise refused
            _store(exchange, await routing.route(whole))
    except DriftQError as error:
        exchange.reply_error(error)


def _store(exchange: Exchange, message: Produced) -> None:
    edge = exchange.edge
    command = prepare(message, at=edge.clock.now())
    edge.engine.submit(ProduceRequest([command], partial(_stored, exchange, command)))


def _stored(exchange: Exchange, command: Produce, outcomes: list[Outcome] | DriftQError) -> None:
    outcome = outcomes if isinstance(outcomes, DriftQError) else outcomes[0]
    if isinstance(outcome, DriftQError):
        exchange.reply_error(outcome)
    else:
        exchange.reply_ok(produced(command, outcome))


def produced(command: Produce, outcome: Outcome) -> bytes:
    """The reply for a stored message."""
    if type(outcome) is tuple:
        return b'{"status":"produced","topic":"%b","partition":%d,"offset":%d,"duplicate":false}' % (
            command.topic.encode(),
            *outcome,
        )
    assert not isinstance(outcome, (tuple, DriftQError))
    return b'{"status":"produced","topic":"%b","partition":%d,"offset":%d,"duplicate":true%b}' % (
        outcome.topic.encode(),
        outcome.partition,
        outcome.offset,
        b',"payload_mismatch":true' if outcome.payload_mismatch else b"",
    )


def read_message(body: bytes | msgspec.Raw, *, in_process: bool = False) -> Produced:
    """One message from its JSON; raises InvalidArgument."""
    try:
        return cast(Produced, _decode(body))
    except msgspec.ValidationError:
        pass
    except (ValueError, RecursionError) as error:
        raise body_problem(error) from None
    try:
        if in_process:
            return _decode_in_process(body)
        given = _decode_nullable(body)
        return cast(Produced, ProduceBody(given.topic, given.value, given.key or "", given.envelope))
    except (ValueError, RecursionError) as error:
        raise _message_problem(error) from None


def _message_problem(error: Exception) -> InvalidArgument:
    """The problem with a message; a value that is not a string is the most common mistake."""
    problem = body_problem(error)
    if problem.field == "value" and isinstance(error, msgspec.ValidationError):
        return InvalidArgument("value", f"{problem.problem}; {_VALUE_HINT}")
    return problem


def whole_message(message: Produced) -> Message:
    """A message in the model's form, for routers and observers."""
    envelope: Envelope | EnvelopeBody | None = message.envelope
    if envelope is not None and not isinstance(envelope, Envelope):
        envelope = to_envelope(envelope)
    return Message(message.topic, message.value, message.key, envelope, message.routing)


def to_envelope(body: EnvelopeBody) -> Envelope:
    """An envelope in the model's form."""
    return Envelope(*(getattr(body, name) for name in body.__struct_fields__))


def _from_query(query: ProduceQuery) -> Produced:
    for alias, name in (("tenant", "tenant_id"), ("idem_key", "idempotency_key")):
        if getattr(query, alias) is not None and getattr(query, name) is not None:
            raise InvalidArgument(alias, f"is another name for {name}: give one of them")
    limits = RetryPolicy(query.retry_max_attempts, query.retry_backoff_ms, query.retry_max_backoff_ms)
    envelope = EnvelopeBody(
        run_id=query.run_id,
        step_id=query.step_id,
        parent_step_id=query.parent_step_id,
        tenant_id=query.tenant_id if query.tenant is None else query.tenant,
        idempotency_key=query.idempotency_key if query.idem_key is None else query.idem_key,
        target_topic=query.target_topic,
        partition_override=query.partition_override,
        deadline=query.deadline,
        retry_policy=None if limits == RetryPolicy() else limits,
        traceparent=query.traceparent,
    )
    given = None if envelope == EnvelopeBody() else envelope
    return cast(Produced, ProduceBody(query.topic, query.value, query.key or "", given))
