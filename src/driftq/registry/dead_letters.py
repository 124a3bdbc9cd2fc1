"""Dead letters of handlers: how they are made, each in a given transaction, and how they are stored.

A dead letter is made from two rows, the dead claim and the parked text. It is written in the transaction that
completes the pair, so no event is dead and parked without one. `driftq.registry.outbox` has the rest.
"""

from collections.abc import Sequence
from typing import Any

from driftq.core.dead_lettered import MAX_ATTEMPTS, NOT_RETRYABLE
from driftq.model.dead_letter import FailedStage, HandlerDeadLetter, HandlerKind
from driftq.sql import Queries, Transaction, as_rows, storable

UNFIT = "unfit"
"""The aggregate type of a message that is no event, and the prefix of its id."""


def record_dead_letters(
    transaction: Transaction, queries: Queries, handler: str, event_ids: Sequence[str]
) -> int:
    """Write the dead letters of those of these events that are dead and parked; returns how many.

    One that is written already stays as it is.
    """
    given = as_rows([{"id": event_id} for event_id in event_ids])
    dead = transaction.rows(queries["find_dead"], handler=handler, g=given)
    if not dead:
        return 0
    rows = [{"event_id": row.event_id, **_columns(_dead_letter(handler, row))} for row in dead]
    return transaction.run(queries["record_dead_letters"], handler=handler, g=as_rows(rows))


def mark_redriven(
    transaction: Transaction, queries: Queries, handler: str, event_id: str, *, by: str
) -> None:
    """Its event is to be handled once more; an event without a dead letter has no mark."""
    given = {"handler": handler, "event_id": event_id, "redriven_by": storable(by)}
    transaction.run(queries["mark_redriven"], **given)


def _dead_letter(handler: str, row: Any) -> HandlerDeadLetter:
    """From the dead claim and its parked text."""
    is_event = row.aggregate_type != UNFIT or not row.event_id.startswith(f"{UNFIT}:")
    known = row.reason in (MAX_ATTEMPTS, NOT_RETRYABLE)
    return HandlerDeadLetter(
        kind=HandlerKind.WORKER,
        handler=handler,
        topic=row.topic,
        partition=row.topic_partition,
        offset=row.topic_offset,
        stage=FailedStage.HANDLE if is_event else FailedStage.DECODE,
        error=row.last_error or row.reason,
        reason=row.reason if known else NOT_RETRYABLE,  # An operator resolved it so.
        attempts=row.attempts,
        at=row.now,
        key=row.aggregate_id if is_event else "",
        value=row.value,
        event_id=row.event_id if is_event else None,
        identity=row.topic_identity,
        redrives=row.requeues,
    )


def _columns(dead_letter: HandlerDeadLetter) -> dict[str, Any]:
    return {
        "id": dead_letter.id,
        "topic": dead_letter.topic,
        "identity": dead_letter.identity,
        "topic_partition": dead_letter.partition,
        "topic_offset": dead_letter.offset,
        "letter_key": dead_letter.key,
        "value": dead_letter.value,
        "stage": dead_letter.stage,
        "error": dead_letter.error,
        "reason": dead_letter.reason,
        "attempts": dead_letter.attempts,
        "redrives": dead_letter.redrives,
        "recorded_at": dead_letter.at,
    }


def stored_dead_letter(handler: str, row: Any) -> HandlerDeadLetter:
    """From a row of the outbox."""
    return HandlerDeadLetter(
        kind=HandlerKind.WORKER,
        handler=handler,
        topic=row.topic,
        partition=row.topic_partition,
        offset=row.topic_offset,
        stage=row.stage,
        error=row.error,
        reason=row.reason,
        attempts=row.attempts,
        at=row.recorded_at,
        key=row.letter_key,
        value=row.value,
        event_id=row.event_id if row.stage != FailedStage.DECODE else None,
        identity=row.identity,
        redrives=row.redrives,
    )
