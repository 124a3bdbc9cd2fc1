"""Produce requests as the HTTP edge makes them: a simple message alone is prepared in its turn."""

from collections.abc import Callable, Sequence
from typing import Any

from driftq.core.decide.produce import Outcome
from driftq.errors import Unavailable
from driftq.model import Message
from driftq.server.produce.prepare import is_simple, prepare
from driftq.server.requests import ProduceRequest, SingleRequest, StoredRun


class _Answers:
    """A request is known by its callback, which takes what that of a ProduceRequest takes."""

    def answer(self, asked: Callable[[Any], None], _topic: str, outcome: Outcome) -> None:
        asked(outcome if isinstance(outcome, Unavailable) else [outcome])

    def answer_all(self, asked: Sequence[Callable[[Any], None]], run: StoredRun) -> None:
        offsets = range(run.first_offset, run.first_offset + len(asked))
        for reply, partition, offset in zip(asked, run.partitions, offsets, strict=True):
            reply([(partition, offset)])


_ANSWERS = _Answers()


def produce_request(
    messages: Sequence[Message], reply: Callable[[Any], None], *, atomic: bool, now: int
) -> ProduceRequest | SingleRequest:
    """The request for these messages; raises InvalidArgument."""
    if len(messages) == 1 and not atomic and is_simple(messages[0]):
        return SingleRequest(messages[0], len(messages[0].value), reply, _ANSWERS)
    return ProduceRequest([prepare(message, at=now) for message in messages], reply, atomic=atomic)
