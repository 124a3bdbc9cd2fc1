"""Dead letters of workers, projections and the publisher, as their relay hands them to the server."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from driftq.model.dead_letter import HandlerDeadLetter, HandlerKind
from driftq.model.time import parse_rfc3339, rfc3339
from driftq.model.wire.fields import KEY_MAX, OR_ERROR, Name, Natural, Reason, Request

_Key = Annotated[str, msgspec.Meta(max_length=KEY_MAX)]
DeathReason = Literal["max_attempts", "not_retryable", "deadline_exceeded"]


class HandlerLetter(Request, frozen=True, omit_defaults=True):
    """An event that a handler has given up. Of each `id` one is stored, that of the highest `redrives`."""

    id: Name
    kind: HandlerKind
    handler: Name
    partition: Natural
    offset: Natural
    stage: Name
    error: Reason
    reason: DeathReason
    attempts: Natural
    at: str
    """When it was given up, RFC 3339."""
    key: _Key = ""
    value: str | None = None
    event_id: _Key | None = None
    identity: Name | None = None
    redrives: Natural = 0

    @classmethod
    def of(cls, dead_letter: HandlerDeadLetter) -> HandlerLetter:
        return cls(
            id=dead_letter.id,
            kind=dead_letter.kind,
            handler=dead_letter.handler,
            partition=dead_letter.partition,
            offset=dead_letter.offset,
            stage=dead_letter.stage,
            error=dead_letter.error,
            reason=dead_letter.reason,  # type: ignore[arg-type]
            attempts=dead_letter.attempts,
            at=rfc3339(dead_letter.at),
            key=dead_letter.key,
            value=dead_letter.value,
            event_id=dead_letter.event_id,
            identity=dead_letter.identity or None,
            redrives=dead_letter.redrives,
        )

    def dead_letter(self, topic: str) -> HandlerDeadLetter:
        """The dead letter of a message of this topic; raises ValueError where `at` is not an instant."""
        return HandlerDeadLetter(
            kind=self.kind,
            handler=self.handler,
            topic=topic,
            partition=self.partition,
            offset=self.offset,
            stage=self.stage,
            error=self.error,
            reason=self.reason,
            attempts=self.attempts,
            at=parse_rfc3339(self.at),
            key=self.key,
            value=self.value,
            event_id=self.event_id,
            identity=self.identity or "",
            redrives=self.redrives,
        )


class HandlerLettersBody(Request, frozen=True):
    """Dead letters of one topic."""

    letters: list[HandlerLetter]


class HandlerLetterParts(Request, frozen=True):
    """The same with each dead letter undecoded."""

    letters: list[msgspec.Raw]


class PublishedLetter(msgspec.Struct, frozen=True):
    """Where a dead letter is in `dlq.<topic>`; a duplicate was stored before."""

    status: Literal["stored", "duplicate"]
    partition: int
    offset: int


class PublishedLettersReply(msgspec.Struct, frozen=True):
    """One result for each dead letter, in order."""

    results: Annotated[list[PublishedLetter], OR_ERROR]
