"""One message or ack and its reply: alone, or together with all that a turn has decided.

Most requests of a turn have the same topic, so their replies differ in two numbers: one template is made for
all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial

from driftq.core.commands import Ack, Produce
from driftq.core.decide.produce import Outcome
from driftq.errors import DriftQError
from driftq.http.wire.exchange import Exchange, reply_outcome
from driftq.server.produce.prepare import SIMPLE_BYTES_MAX, Produced, is_simple, prepare
from driftq.server.requests import ProduceRequest, SingleAckRequest, SingleRequest, StoredRun

_FEW = 3
"""For no more replies a template of their own does not pay."""
_ACCEPTED = b'{"status":"produced","topic":"%b","partition":%%d,"offset":%%d,"duplicate":false}'


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
        alike = (
            len(exchanges) > _FEW and max(partitions) < 10 and len(str(offsets[0])) == len(str(offsets[-1]))
        )
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
