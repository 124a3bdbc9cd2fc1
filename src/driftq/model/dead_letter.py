"""A dead letter of a worker, a projection, the publisher or a bridge: a message that it has given up.

It is a message of `dlq.<topic>`, like the dead letters of consumer groups. Its id is made from the handler,
the place of the message and the stage of the failure, so the same failure has the same id however often it is
published, and lists show it once. An event that is redriven and fails for good a second time has the same id
and a higher `redrives`.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from hashlib import sha256

import msgspec

from driftq.model.envelope import DeadLetterFacts
from driftq.model.time import parse_rfc3339, rfc3339

ID_CHARACTERS = 32


class HandlerKind(enum.StrEnum):
    """Whose dead letter it is."""

    WORKER = "worker"
    PROJECTION = "projection"
    PUBLISHER = "publisher"
    BRIDGE = "bridge"


class FailedStage(enum.StrEnum):
    """What the handler was doing. Sinks and users may have further stages."""

    DECODE = "decode"
    FOLD = "fold"
    WRITE = "write"
    HANDLE = "handle"
    PUBLISH = "publish"


class HandlerDeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """One event that one handler has given up, and where it was on its topic."""

    kind: HandlerKind
    handler: str
    topic: str
    partition: int
    offset: int
    stage: str
    error: str
    reason: str
    attempts: int
    at: int
    """When it was given up, in milliseconds."""
    key: str = ""
    value: str | None = None
    event_id: str | None = None
    """None where the message is not an event."""
    identity: str = ""
    """Names transport, cluster and topic id; empty where they are not known."""
    redrives: int = 0
    """How often it was redriven before."""

    @property
    def id(self) -> str:
        """The same for every copy of this dead letter."""
        place = (f"{self.kind}:{self.handler}", self.identity or self.topic)
        return dead_letter_id(*place, partition=self.partition, offset=self.offset, stage=self.stage)


def dead_letter_id(handler: str, identity: str, *, partition: int, offset: int, stage: str) -> str:
    """A digest of handler, topic, partition, offset and stage. `handler` is `worker:NAME` and its like."""
    named = msgspec.json.encode([handler, identity, partition, offset, stage])
    return sha256(named).hexdigest()[:ID_CHARACTERS]


def newest_of_each(dead_letters: Iterable[HandlerDeadLetter]) -> list[HandlerDeadLetter]:
    """One for each id, in the order of their first copies: the one that was redriven most often."""
    newest: dict[str, HandlerDeadLetter] = {}
    for dead_letter in dead_letters:
        known = newest.get(dead_letter.id)
        if known is None or known.redrives < dead_letter.redrives:
            newest[dead_letter.id] = dead_letter
    return list(newest.values())


def facts_of(dead_letter: HandlerDeadLetter, *, id: str | None = None) -> DeadLetterFacts:
    """As they stand in the envelope of its message."""
    return DeadLetterFacts(
        original_topic=dead_letter.topic,
        original_partition=dead_letter.partition,
        original_offset=dead_letter.offset,
        group=dead_letter.handler,
        attempts=dead_letter.attempts,
        last_error=dead_letter.error,
        reason=dead_letter.reason,
        at=rfc3339(dead_letter.at),
        kind=dead_letter.kind.value,
        id=id or dead_letter.id,
        stage=dead_letter.stage,
        event_id=dead_letter.event_id,
        identity=dead_letter.identity or None,
        redrives=dead_letter.redrives,
    )


def dead_letter_from(facts: DeadLetterFacts | None, *, key: str, value: str) -> HandlerDeadLetter | None:
    """The handler's dead letter in a message; None where a consumer group gave it up."""
    if facts is None or facts.kind is None:
        return None
    return HandlerDeadLetter(
        kind=HandlerKind(facts.kind),
        handler=facts.group,
        topic=facts.original_topic,
        partition=facts.original_partition,
        offset=facts.original_offset,
        stage=facts.stage or "",
        error=facts.last_error,
        reason=facts.reason,
        attempts=facts.attempts,
        at=parse_rfc3339(facts.at),
        key=key,
        value=value,
        event_id=facts.event_id,
        identity=facts.identity or "",
        redrives=facts.redrives,
    )
