"""Messages: produce one, consume a stream of deliveries, ack, nack, extend: the hottest paths of the edge."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from typing import cast

import msgspec

from driftq.core.commands import Ack, Extend, Nack, Produce
from driftq.core.decide.produce import Outcome
from driftq.core.lease import Credit
from driftq.core.owners import OwnedKind
from driftq.errors import DriftQError, InvalidArgument, TopicNotFound
from driftq.http.api.params import Form, body_problem, check_name
from driftq.http.messages.tenants import of_tenant, topics_of, within_tenant
from driftq.http.messages.tracing import traced
from driftq.http.wire.exchange import (
    LAST_CHUNK,
    NDJSON,
    Exchange,
    chunk,
    reply_outcome,
)
from driftq.model import Envelope, Message, MessageRetryPolicy
from driftq.model.envelope import EnvelopeBody
from driftq.model.wire.messages import (
    AckBody,
    ConsumeBody,
    ExtendBody,
    NackBody,
)
from driftq.model.wire.produce import InProcessBody, NullableProduceBody, ProduceBody, ProduceQuery
from driftq.server.produce.prepare import SIMPLE_BYTES_MAX, Produced, is_simple, prepare
from driftq.server.requests import (
    DrainedRequest,
    ExtendRequest,
    JoinRequest,
    LeaveRequest,
    NackRequest,
    ProduceRequest,
    SingleAckRequest,
    SingleRequest,
    StoredRun,
)
from driftq.server.routing.service import RoutingService

QUERY = Form(ProduceQuery)
_VALUE_HINT = (
    'a value is text, so send JSON as a string, as in "value": "{\\"total\\": 12}"; '
    "the Python client encodes objects as JSON itself"
)
_decode = cast(Callable[[bytes | msgspec.Raw], Produced], msgspec.json.Decoder(ProduceBody).decode)
_decode_nullable = msgspec.json.Decoder(NullableProduceBody).decode
_decode_in_process = msgspec.json.Decoder(InProcessBody).decode
CONSUME = Form(ConsumeBody)
ACK = Form(AckBody)
NACK = Form(NackBody)
EXTEND = Form(ExtendBody)
_FEW = 3
"""For no more replies a template of their own does not pay."""
_ACCEPTED = b'{"status":"produced","topic":"%b","partition":%%d,"offset":%%d,"duplicate":false}'


# Produce


def produce(exchange: Exchange) -> None:
    body, edge = exchange.body, exchange.edge
    if body:
        if exchange.query:
            QUERY.check_query(exchange.query)
        try:
            message = _decode(body)
        except (ValueError, RecursionError):
            message = read_message(body, in_process=edge.options.in_process)
    else:
        message = _from_query(QUERY.from_query(exchange.query))
    if exchange.caller is not None and exchange.caller.tenant is not None:
        message = of_tenant(exchange, message)
    if exchange.traceparent is not None:
        message = traced(message, exchange.traceparent)
    if edge.routing is not None and edge.routing.wants(message.topic):
        edge.spawn(exchange, _route(exchange, edge.routing, message))
    else:
        store_one(exchange, message)


async def _route(exchange: Exchange, routing: RoutingService, message: Produced) -> None:
    whole = whole_message(message)
    try:
        with routing.holding([whole]) as (refused,):
            if refused is not None:
                raise refused
            store_one(exchange, within_tenant(exchange, await routing.route(whole), whole))
    except DriftQError as error:
        exchange.reply_error(error)


def read_message(body: bytes | msgspec.Raw, *, in_process: bool = False) -> Produced:
    """One message from its JSON; raises InvalidArgument."""
    try:
        return _decode(body)
    except msgspec.ValidationError:
        pass
    except (ValueError, RecursionError) as error:
        raise body_problem(error) from None
    try:
        if in_process:
            return _decode_in_process(body)
        given = _decode_nullable(body)
        body_of = ProduceBody(given.topic, given.value, given.key or "", given.envelope, given.headers)
        return cast(Produced, body_of)
    except (ValueError, RecursionError) as error:
        raise _message_problem(error) from None


def topics_produced(exchange: Exchange) -> Iterable[str]:
    """The topic of the message, and the one that its envelope sends it to."""
    if exchange.body:
        return topics_of(read_message(exchange.body))
    return topics_of(_from_query(QUERY.from_query(exchange.query)))


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
    return Message(message.topic, message.value, message.key, envelope, message.routing, message.headers)


def to_envelope(body: EnvelopeBody) -> Envelope:
    """An envelope in the model's form."""
    return Envelope(*(getattr(body, name) for name in body.__struct_fields__))


def _from_query(query: ProduceQuery) -> Produced:
    for alias, name in (("tenant", "tenant_id"), ("idem_key", "idempotency_key")):
        if getattr(query, alias) is not None and getattr(query, name) is not None:
            raise InvalidArgument(alias, f"is another name for {name}: give one of them")
    limits = MessageRetryPolicy(query.retry_max_attempts, query.retry_backoff_ms, query.retry_max_backoff_ms)
    envelope = EnvelopeBody(
        run_id=query.run_id,
        step_id=query.step_id,
        parent_step_id=query.parent_step_id,
        tenant_id=query.tenant_id if query.tenant is None else query.tenant,
        idempotency_key=query.idempotency_key if query.idem_key is None else query.idem_key,
        target_topic=query.target_topic,
        partition_override=query.partition_override,
        deadline=query.deadline,
        deliver_at=query.deliver_at,
        retry_policy=None if limits == MessageRetryPolicy() else limits,
        traceparent=query.traceparent,
    )
    given = None if envelope == EnvelopeBody() else envelope
    return cast(Produced, ProduceBody(query.topic, query.value, query.key or "", given))


# Consume


def consume(exchange: Exchange) -> None:
    asked = CONSUME.read(exchange.body, exchange.query)
    check_name("group", asked.group)
    check_name("owner", asked.owner)
    stream = ConsumeStream(exchange, asked)
    exchange.edge.engine.submit(JoinRequest(stream, stream.joined))


class ConsumeStream:
    """A consumer of a group, as long as its connection lasts."""

    def __init__(self, exchange: Exchange, params: ConsumeBody) -> None:
        edge = exchange.edge
        self.topic = params.topic
        self.group = params.group
        self.owner = params.owner
        self.lease_ms = params.lease_ms or edge.broker.options.limits.ack_timeout_ms
        self.prefetch = params.prefetch or edge.options.prefetch
        self.prefetch_bytes = edge.options.prefetch_bytes
        self.latest = params.start == "latest"
        self.release_on_close = params.release_on_close is True
        self.credit = Credit()
        self._exchange = exchange
        self._connection = exchange.connection
        self._edge = edge
        self._chunked = not exchange.old
        self._open = False

    def joined(self, refused: DriftQError | None) -> None:
        """The engine has decided: the headers go out before there is a message."""
        if refused is not None:
            self._leave()  # An unconfirmed join may still take effect.
            self._exchange.reply_error(refused)
            return
        if not self._exchange.owns(OwnedKind.TOPIC, self.topic):
            self._leave()  # Meanwhile the topic was deleted, and another tenant has one of its name.
            self._exchange.reply_error(TopicNotFound(self.topic))
            return
        if not self._connection.is_first(self._exchange):
            self._leave()  # The client did not wait.
            return
        self._open = True
        self._edge.streams.add(self)
        self._edge.counters.streams += 1
        head = self._edge.heads.stream(content_type=NDJSON, chunked=self._chunked, close=True)
        self._connection.begin(self._exchange, head, self)
        self._connection.listen_no_more()

    def _leave(self) -> None:
        self._edge.engine.submit(LeaveRequest(self))

    # What the broker calls on a consumer

    def send(self, lines: bytes) -> None:
        if self._open:
            self._connection.write(chunk(lines) if self._chunked else lines)

    def unsent_bytes(self) -> int:
        return self._connection.unsent_bytes()

    def end(self) -> None:
        """The server closes the stream."""
        if self._open:
            self._open = False
            self._edge.streams.discard(self)
            if self._chunked:
                self._connection.write(LAST_CHUNK)
            self._leave()
            self._connection.close()

    # What the connection calls on a stream

    def resumed(self) -> None:
        self._edge.engine.submit(DrainedRequest(self.topic, self.group))

    def lost(self) -> None:
        if self._open:
            self._open = False
            self._edge.streams.discard(self)
            self._leave()


# Ack, nack, extend


def ack(exchange: Exchange) -> None:
    asked = ACK.read(exchange.body, exchange.query)
    check_name("group", asked.group)
    check_name("owner", asked.owner)
    mine = Ack(asked.owner, asked.partition, asked.offset, asked.attempt)
    ack_one(exchange, asked.topic, asked.group, mine)


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


# Replies: alone, or together with all that a turn has decided


def store_one(exchange: Exchange, message: Produced) -> None:
    """Submit the message; raises InvalidArgument."""
    edge = exchange.edge
    size_bytes = len(exchange.body) + len(exchange.query)
    if size_bytes <= SIMPLE_BYTES_MAX and (
        (message.envelope is None and message.headers is None) or is_simple(message)
    ):
        edge.engine.submit(SingleRequest(message, size_bytes, exchange, _ANSWERS))
    else:
        command = prepare(message, at=edge.clock.now())
        edge.engine.submit(ProduceRequest([command], partial(_stored, exchange, command)))


def _stored(exchange: Exchange, command: Produce, outcomes: list[Outcome] | DriftQError) -> None:
    outcome = outcomes if isinstance(outcomes, DriftQError) else outcomes[0]
    _ANSWERS.answer(exchange, command.topic, outcome)


class _ProduceAnswers:
    """The replies of `POST /v1/produce`."""

    def answer(self, exchange: Exchange, topic: str, outcome: Outcome) -> None:
        if isinstance(outcome, DriftQError):
            exchange.reply_error(outcome)
        else:
            exchange.reply_ok(produced(topic, outcome))

    def answer_all(self, exchanges: Sequence[Exchange], run: StoredRun) -> None:
        topic, partitions, first = run
        body = _accepted(topic)
        offsets = range(first, first + len(exchanges))
        if len(exchanges) <= _FEW:
            for exchange, place in zip(exchanges, zip(partitions, offsets, strict=True), strict=True):
                exchange.reply_ok(body % place)
            return
        alike = max(partitions) < 10 and len(str(offsets[0])) == len(str(offsets[-1]))
        whole = (
            b"%b%d\r\n\r\n%b" % (exchanges[0].edge.heads.ok, len(body % (0, first)), body) if alike else b""
        )
        for exchange, place in zip(exchanges, zip(partitions, offsets, strict=True), strict=True):
            if alike and not (exchange.request_id or exchange.ends_connection or exchange.old):
                exchange.connection.answered(exchange, whole % place)
            else:
                exchange.reply_ok(body % place)


_ANSWERS = _ProduceAnswers()


def ack_one(exchange: Exchange, topic: str, group: str, ack: Ack) -> None:
    exchange.edge.engine.submit(SingleAckRequest(topic, group, ack, exchange, _ACK_ANSWERS))


class _AckAnswers:
    """The replies of `POST /v1/ack`."""

    def answer(self, exchange: Exchange, outcome: DriftQError | None) -> None:
        reply_outcome(exchange, outcome)

    def answer_all(self, exchanges: Sequence[Exchange]) -> None:
        done = exchanges[0].edge.heads.no_content
        for exchange in exchanges:
            if exchange.request_id or exchange.ends_connection or exchange.old:
                exchange.reply_done()
            else:
                exchange.connection.answered(exchange, done)


_ACK_ANSWERS = _AckAnswers()


@lru_cache(maxsize=64)
def _accepted(topic: str) -> bytes:
    """The body for a new message of a topic, with placeholders for partition and offset."""
    return _ACCEPTED % topic.encode()


def produced(topic: str, outcome: Outcome) -> bytes:
    """The reply for a stored message."""
    if type(outcome) is tuple:
        return _accepted(topic) % outcome
    assert not isinstance(outcome, (tuple, DriftQError))
    return b'{"status":"produced","topic":"%b","partition":%d,"offset":%d,"duplicate":true%b}' % (
        outcome.topic.encode(),
        outcome.partition,
        outcome.offset,
        b',"payload_mismatch":true' if outcome.payload_mismatch else b"",
    )
