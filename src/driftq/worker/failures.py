"""The consequence of a failed attempt for its message, and the log line about it.

The broker decides when a message is redelivered and when it is dead-lettered. The worker applies the same
rules, so that its log can say what happens next: the wait is a range where the broker adds jitter.
A line names topic, partition, group, attempt and offset, never a key or a value.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from driftq.client import AsyncClient
from driftq.client.consuming.delivery import Received
from driftq.core.decide.backoff import retry_delay_ms
from driftq.core.records import ORDINARY, DeliveryTerms
from driftq.errors import DriftQError, TopicNotFound
from driftq.model.envelope import MAX_BACKOFF_MS
from driftq.model.topic import DEAD_LETTER_PREFIX
from driftq.registry.verdict import Reject, Released, Retry

_ANSWER_S = 2.0


@dataclass(frozen=True, slots=True)
class Redelivery:
    """It is delivered again, after so many milliseconds: at least and at most."""

    from_ms: int
    to_ms: int

    def __str__(self) -> str:
        if self.from_ms == self.to_ms:
            return f"next in {_span(self.from_ms)}"
        return f"next in {_span(self.from_ms)} to {_span(self.to_ms)}"


@dataclass(frozen=True, slots=True)
class GivenUp:
    """It becomes a dead letter."""

    by_worker: bool
    """The worker asks for it; else the broker sees to it, by the message's own limit."""


def fate_of(delivery: Received, error: BaseException, *, max_attempts: int | None) -> Redelivery | GivenUp:
    """What follows an attempt that failed like that. `max_attempts` is the limit of the handler's own."""
    if isinstance(error, Released):
        return Redelivery(0, 0)
    terms, tries = _terms(delivery), delivery.tries
    if not _is_dead_letter(delivery):  # Those are given up already.
        if isinstance(error, Reject) or (max_attempts is not None and tries >= max_attempts):
            return GivenUp(by_worker=True)
        if 0 < terms.max_attempts <= tries:
            return GivenUp(by_worker=False)
    asked_ms = error.after_ms if isinstance(error, Retry) else None
    shortest, longest = (
        retry_delay_ms(terms, attempt=tries, nacked=asked_ms is None, jitter=jitter) for jitter in (0.0, 1.0)
    )
    return Redelivery((asked_ms or 0) + shortest, (asked_ms or 0) + longest)


def describe(delivery: Received, what: str, *, max_attempts: int | None = None) -> str:
    """A line of log about one delivery; `of` is said where there is a limit that still counts.

    Where the broker counts fewer tries than attempts, as after a reset, the tries are said too.
    """
    limits = [limit for limit in (_terms(delivery).max_attempts, max_attempts) if limit]
    limit = min(limits, default=0)
    of = f" of {limit}" if delivery.tries <= limit and not _is_dead_letter(delivery) else ""
    if delivery.tries != delivery.attempt:
        of = f", try {delivery.tries}{of},"
    return (
        f"{delivery.topic}/{delivery.partition} group {delivery.group} attempt {delivery.attempt}{of} {what} "
        f"(offset {delivery.offset})"
    )


def _is_dead_letter(delivery: Received) -> bool:
    return delivery.topic.startswith(DEAD_LETTER_PREFIX)


def _terms(delivery: Received) -> DeliveryTerms:
    policy = delivery.envelope.retry_policy
    if policy is None or _is_dead_letter(delivery):  # Its policy is over with its first life.
        return ORDINARY
    return DeliveryTerms(
        max_attempts=policy.max_attempts or 0,
        backoff_ms=-1 if policy.backoff_ms is None else policy.backoff_ms,
        max_backoff_ms=MAX_BACKOFF_MS if policy.max_backoff_ms is None else policy.max_backoff_ms,
    )


def _span(milliseconds: int) -> str:
    return f"{milliseconds} ms" if milliseconds < 1_000 else f"{milliseconds / 1_000:g} s"


class DeadLetterPartitions:
    """Where dead letters go, for the log: into their partition modulo the number that there are.

    Asks the server at most once how many there are.
    """

    def __init__(self, client: AsyncClient, topic: str) -> None:
        self._client = client
        self._topic = f"{DEAD_LETTER_PREFIX}{topic}"
        self._partitions: int | None = None

    async def name(self, partition: int) -> str:
        """`dlq.payments/1`; without the partition while the server does not say."""
        if self._partitions is None:
            try:
                view = await asyncio.wait_for(self._client.topic(self._topic), _ANSWER_S)
            except TopicNotFound:
                return f"{self._topic}/{partition}"  # It is about to be made like the topic itself.
            except (DriftQError, TimeoutError):
                return self._topic
            self._partitions = len(view.partitions)
        return f"{self._topic}/{partition % self._partitions}"
