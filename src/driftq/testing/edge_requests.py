"""Requests as the HTTP edge makes them: what is alone is answered with others."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from driftq.core.commands import Ack
from driftq.core.decide.produce import Outcome
from driftq.errors import DriftQError, Unavailable
from driftq.model import Message
from driftq.server.produce.prepare import are_simple, prepare
from driftq.server.requests import (
    AckRequest,
    ManyRequest,
    ProduceRequest,
    SimpleRequest,
    SingleAckRequest,
    SingleRequest,
    StoredRun,
)


class _CallbackAnswers:
    """A request is known by its callback, which takes what that of a ProduceRequest takes."""

    def answer(self, asked: Callable[[Any], None], _topic: str, outcome: Outcome) -> None:
        asked(outcome if isinstance(outcome, Unavailable) else [outcome])

    def answer_all(self, asked: Sequence[Callable[[Any], None]], run: StoredRun) -> None:
        offsets = range(run.first_offset, run.first_offset + len(asked))
        for reply, partition, offset in zip(asked, run.partitions, offsets, strict=True):
            reply([(partition, offset)])


_ANSWERS = _CallbackAnswers()


def produce_request(
    messages: Sequence[Message], reply: Callable[[Any], None], *, atomic: bool, now: int
) -> ProduceRequest | SimpleRequest:
    """The request for these messages; raises InvalidArgument."""
    size_bytes = sum(len(message.value) for message in messages)
    if atomic or not messages or not are_simple(messages, size_bytes=size_bytes):
        return ProduceRequest([prepare(message, at=now) for message in messages], reply, atomic=atomic)
    if len(messages) == 1:
        return SingleRequest(messages[0], size_bytes, reply, _ANSWERS)
    return ManyRequest(messages, size_bytes, partial(_answer_many, reply))


def _answer_many(reply: Callable[[Any], None], answer: StoredRun | list[Outcome] | DriftQError) -> None:
    if isinstance(answer, StoredRun):
        offsets = range(answer.first_offset, answer.first_offset + len(answer.partitions))
        reply(list(zip(answer.partitions, offsets, strict=True)))
    else:
        reply(answer)


class _CallbackAckAnswers:
    """The same for acks."""

    def answer(self, asked: Callable[[Any], None], outcome: DriftQError | None) -> None:
        asked([outcome])

    def answer_all(self, asked: Sequence[Callable[[Any], None]]) -> None:
        for reply in asked:
            reply([None])


_ACK_ANSWERS = _CallbackAckAnswers()


def ack_request(
    topic: str, group: str, acks: list[Ack], reply: Callable[[Any], None]
) -> AckRequest | SingleAckRequest:
    """The request for these acks."""
    if len(acks) == 1:
        return SingleAckRequest(topic, group, acks[0], reply, _ACK_ANSWERS)
    return AckRequest(topic, group, acks, reply)
