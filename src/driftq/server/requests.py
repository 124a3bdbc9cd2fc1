"""Requests about messages, topics and groups, each with the call that takes its answer.

An answer is a result or a DriftQError. It is given once, on the loop, when the outcome is durable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import msgspec

from driftq.core.commands import Ack, AppendByPosition, Extend, Nack, Produce
from driftq.core.decide.delete import ResetTo
from driftq.core.decide.owners import OwnedName
from driftq.core.decide.produce import Outcome
from driftq.core.lease import Credit
from driftq.core.state import State
from driftq.errors import DriftQError
from driftq.model import TopicOptions
from driftq.server.ports import ConsumerStream
from driftq.server.produce.prepare import Produced

Reply = Callable[[Any], None]


class EngineRequest(Protocol):
    """Anything that waits for a turn."""

    @property
    def reply(self) -> Reply: ...


class ProduceRequest(msgspec.Struct, eq=False):
    """Messages that are answered together: a list of outcomes in their order.

    `atomic`: all or nothing. `doomed`: an atomic request that is known to fail; its messages are only
    validated.
    """

    commands: list[Produce]
    reply: Reply
    atomic: bool = False
    doomed: bool = False
    outcomes: list[Outcome] = []


class StoredRun(NamedTuple):
    """Where the messages of several requests have landed: one topic, consecutive offsets."""

    topic: str
    partitions: Sequence[int]
    first_offset: int


class SingleAnswers(Protocol):
    """Answers requests for one message; `asked` is whatever it knows a request by."""

    def answer(self, asked: Any, topic: str, outcome: Outcome) -> None: ...

    def answer_all(self, asked: Sequence[Any], run: StoredRun) -> None: ...


class SingleRequest(msgspec.Struct, eq=False):
    """One simple message. It is prepared in its turn, with all others: that costs half as much.

    It has no callback of its own, so that those of a turn can be answered together.
    """

    message: Produced
    size_bytes: int
    """Of the request: at least what its stored form takes, but for a few bytes."""
    asked: Any
    answers: SingleAnswers

    def reply(self, answer: list[Outcome] | DriftQError) -> None:
        outcome = answer if isinstance(answer, DriftQError) else answer[0]
        self.answers.answer(self.asked, self.message.topic, outcome)


class ManyRequest(msgspec.Struct, eq=False):
    """Simple messages of one topic, prepared in their turn; answered by StoredRun, or a list of outcomes."""

    messages: Sequence[Produced]
    size_bytes: int
    reply: Reply


SimpleRequest = SingleRequest | ManyRequest
"""Its messages are not prepared yet, because nothing in them can be refused."""


class AppendRequest(ProduceRequest, kw_only=True, eq=False):
    """Messages of one writer's lane, all or nothing; answered by AppendedMessages."""

    append: AppendByPosition
    atomic: bool = True


class AckRequest(msgspec.Struct, frozen=True, eq=False):
    """Acks of one owner in one group; answered by a list with None or an error for each."""

    topic: str
    group: str
    acks: list[Ack]
    reply: Reply


class AckAnswers(Protocol):
    """Answers requests for one ack; `asked` is whatever it knows a request by."""

    def answer(self, asked: Any, outcome: DriftQError | None) -> None: ...

    def answer_all(self, asked: Sequence[Any]) -> None:
        """All of them are settled."""
        ...


class SingleAckRequest(msgspec.Struct, frozen=True, eq=False):
    """One ack, without a callback of its own, so that those of a turn can be answered together."""

    topic: str
    group: str
    ack: Ack
    asked: Any
    answers: AckAnswers

    def reply(self, answer: list[DriftQError | None] | DriftQError) -> None:
        self.answers.answer(self.asked, answer if isinstance(answer, DriftQError) else answer[0])


@dataclass(frozen=True, slots=True)
class NackRequest:
    topic: str
    group: str
    nack: Nack
    reply: Reply


@dataclass(frozen=True, slots=True)
class ExtendRequest:
    topic: str
    group: str
    extend: Extend
    reply: Reply


@dataclass(frozen=True, slots=True)
class TopicRequest:
    name: str
    partitions: int
    options: TopicOptions
    reply: Reply
    tenant: str = ""
    """Its owner; empty: nobody."""
    alone: bool = False
    """The request has the tenant's own key."""


@dataclass(frozen=True, slots=True)
class OwnRequest:
    """A tenant uses these names for the first time, or, `given`, an operator gives them to it.

    Answered by None when the tenant owns all of them.
    """

    things: Sequence[OwnedName]
    tenant: str
    reply: Reply
    given: bool = False


@dataclass(frozen=True, slots=True)
class ReaderRequest:
    topic: str
    reader: str
    offsets: dict[int, int]
    reply: Reply


@dataclass(frozen=True, slots=True)
class WriterRequest:
    """Open an epoch of a writer, the next one when none is given; answered by OpenedWriter."""

    topic: str
    writer: str
    epoch: int | None
    reply: Reply


@dataclass(frozen=True, slots=True)
class DeleteTopicRequest:
    """Delete the topic with everything in it; its streams end."""

    topic: str
    reply: Reply


@dataclass(frozen=True, slots=True)
class ResetRequest:
    topic: str
    group: str
    to: ResetTo
    reply: Reply


@dataclass(frozen=True, slots=True)
class DeleteGroupRequest:
    """Delete the group with its progress; its streams end."""

    topic: str
    group: str
    reply: Reply


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """A consumer opens its stream; answered by None when it is a member of its group."""

    consumer: ConsumerStream
    reply: Reply


@dataclass(frozen=True, slots=True)
class LeaveRequest:
    """The stream of a consumer has closed."""

    consumer: ConsumerStream

    def reply(self, answer: object) -> None:
        """No client waits for an answer."""


@dataclass(frozen=True, slots=True)
class DrainedRequest:
    """A consumer of this group has sent its batch: it may have credit again."""

    topic: str
    group: str

    def reply(self, answer: object) -> None:
        """No client waits for an answer."""


@dataclass(frozen=True, slots=True)
class ReleaseRequest:
    """End the deliveries of a consumer that has left; `reply` is called only when that cannot be done now."""

    topic: str
    group: str
    credit: Credit
    reply: Reply


@dataclass(frozen=True, slots=True)
class SealRequest:
    """Seal everything that is durable now; answered by None when a housekeeping round has seen it."""

    reply: Reply


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """A query that is answered from durable state alone."""

    query: Callable[[State], Any]
    reply: Reply
