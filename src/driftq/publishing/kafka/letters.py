"""Dead letters of the publisher: events that Kafka will never take, because they are too large.

They have the headers of other handlers' dead letters, so that the same commands list and show them. Their
place is that in the event log, since they have none on the topic.
"""

from __future__ import annotations

import time

import msgspec

from driftq.core.dead_lettered import NOT_RETRYABLE
from driftq.kafka.dead_letters import dead_letter_headers
from driftq.model.dead_letter import FailedStage, HandlerDeadLetter, HandlerKind
from driftq.model.topic import DEAD_LETTER_PREFIX
from driftq.publishing.kafka.lane import OutgoingEvent

STAGE = FailedStage.PUBLISH.value
NAME = "publisher"
NO_PARTITION = -1


class UnsentEvent(msgspec.Struct, frozen=True, kw_only=True):
    """The value of such a letter: which event it is and why it is not on its topic. The log has the event."""

    event_id: str
    aggregate_type: str
    aggregate_id: str
    sequence_number: int
    position: int
    topic: str
    stage: str = STAGE
    error: str
    size_bytes: int


def dead_letter(event: OutgoingEvent, error: str) -> OutgoingEvent:
    """What is sent to `dlq.<topic>` in place of the event."""
    named = {name: str(value) for name, value in event.headers}
    size = len(event.value.encode()) if isinstance(event.value, str) else len(event.value)
    letter = UnsentEvent(
        event_id=named["event_id"],
        aggregate_type=named["aggregate_type"],
        aggregate_id=named["aggregate_id"],
        sequence_number=int(named["sequence_number"]),
        position=event.position,
        topic=event.topic,
        error=error,
        size_bytes=size,
    )
    facts = HandlerDeadLetter(
        kind=HandlerKind.PUBLISHER,
        handler=NAME,
        topic=event.topic,
        partition=NO_PARTITION,
        offset=event.position,
        stage=STAGE,
        error=error,
        reason=NOT_RETRYABLE,
        attempts=1,
        at=time.time_ns() // 1_000_000,
        event_id=letter.event_id,
    )
    return OutgoingEvent(
        event.position,
        DEAD_LETTER_PREFIX + event.topic,
        event.key,
        msgspec.json.encode(letter),
        [
            *event.headers,
            ("topic", event.topic),
            ("stage", STAGE),
            ("error", error),
            *dead_letter_headers(facts),
        ],
    )
