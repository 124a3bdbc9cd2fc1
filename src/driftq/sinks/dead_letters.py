"""Dead letters of projections: as their topic gets them, and what a read model can do with them.

A read model in SQL keeps them in an outbox, in the transaction that moves the position, and a relay publishes
them. Of any other read model they are published before the position moves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from driftq.core.dead_lettered import MAX_ATTEMPTS, NOT_RETRYABLE
from driftq.model.dead_letter import FailedStage, HandlerDeadLetter, HandlerKind
from driftq.sinks.names import live_name
from driftq.sinks.port import Change, ProjectionDeadLetter, WriterEpoch
from driftq.sql import storable


class RedriveMark(NamedTuple):
    """When a dead letter was redriven, in milliseconds, and by whom; a rebuild counts as one."""

    redriven_at: int
    redriven_by: str


BY_REBUILD = "rebuild"
"""Who redrove the dead letters that a rebuild has applied."""


class DeadLetterOutbox(Protocol):
    """Dead letters that are not published, for the relay of one run. The registry has one as well."""

    def pending(self, *, limit: int, after: HandlerDeadLetter | None = None) -> list[HandlerDeadLetter]:
        """The next ones, oldest first. Raises RelayFenced."""

    def mark_published(self, dead_letters: Sequence[HandlerDeadLetter]) -> None:
        """The topic has them. Raises RelayFenced, and then nothing is marked."""


@runtime_checkable
class HasOutbox(Protocol):
    """A read model that stores dead letters for a relay."""

    def outbox(self, writer_epoch: WriterEpoch) -> DeadLetterOutbox:
        """Its outbox, until another run takes over."""


@runtime_checkable
class RedrivesDeadLetters(Protocol):
    """A read model that a dead letter can be applied to while a projection runs."""

    def redrive(self, change: Change, dead_letter_id: str, *, by: str) -> bool:
        """Apply the change, unless the aggregate has a newer one, and mark the dead letter, in one step.

        Returns whether it was applied. Raises what the target raises for a row that it refuses.
        """

    def redrive_marks(self) -> dict[str, RedriveMark]:
        """The dead letters that were redriven, by id; empty where nothing was ever applied."""


def handler_dead_letter(projection: str, dead: ProjectionDeadLetter, *, at: int) -> HandlerDeadLetter:
    """As the dead-letter topic gets it. A rebuild's dead letters are those of the projection itself."""
    return HandlerDeadLetter(
        kind=HandlerKind.PROJECTION,
        handler=live_name(projection),
        topic=dead.topic,
        partition=dead.partition,
        offset=dead.offset,
        stage=dead.stage,
        error=storable(dead.error),
        reason=NOT_RETRYABLE if dead.stage == FailedStage.DECODE else MAX_ATTEMPTS,
        attempts=dead.attempts,
        at=at,
        key=storable_value(dead.key),
        value=None if dead.value is None else storable_value(dead.value),
        event_id=None if dead.event_id is None else storable(dead.event_id),
        identity=dead.identity,
    )


def dead_letter_id_of(projection: str, dead: ProjectionDeadLetter) -> str:
    return handler_dead_letter(projection, dead, at=0).id


def storable_dead_letter(dead: ProjectionDeadLetter) -> ProjectionDeadLetter:
    """With texts that any target can store."""
    value = None if dead.value is None else storable_value(dead.value)
    event_id = None if dead.event_id is None else storable(dead.event_id)
    return dead._replace(
        error=storable(dead.error), value=value, event_id=event_id, key=storable_value(dead.key)
    )


def storable_value(value: str) -> str:
    """The whole text, with characters that no engine can store escaped."""
    return value.replace("\x00", "\\x00").encode(errors="backslashreplace").decode()
