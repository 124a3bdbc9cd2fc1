"""A draft: a validated event with its hash and its stored texts, before it has a sequence number."""

import datetime as dt
from typing import Any

import msgspec

from driftq.errors import InvalidArgument
from driftq.eventstore.options import AllocatorMode
from driftq.eventstore.outcome import Append
from driftq.eventstore.stored import canonical_json, content_hash, quoted
from driftq.model import Aggregate, Event, Operation
from driftq.model.time import microseconds, utc
from driftq.sql import key_text
from driftq.telemetry.tracing import TRACEPARENT, current_traceparent

ID_BYTES_MAX = 512  # The index on type, id and number must fit PostgreSQL's limit.
SEQUENCE_MAX = 2**53 - 1  # What every reader of JSON can hold.


class Draft(msgspec.Struct, frozen=True, gc=False):
    """The append rule's input. Making one costs CPU, so it is done before the transaction.

    It holds nothing but texts and numbers, so the garbage collector need not track thousands of them.
    Events of one transaction go into the log in the order of their places.
    """

    index: int
    event_id: str
    aggregate: Aggregate
    event_type: str
    operation: str
    expected_seq: int | None
    sequence_number: int | None
    content_hash: str
    occurred_at_us: int
    payload: str
    metadata: str
    schema_version: str


def draft(command: Append, aggregate: Aggregate, index: int, *, mode: AllocatorMode, now_us: int) -> Draft:
    """The draft of a command; raises InvalidArgument naming the invalid field."""
    event = command.event
    kind = _kind(event)
    operation = event.operation.value
    _check_names(event, kind)
    payload = canonical_json(event.payload, field="payload")
    hashed = content_hash(
        aggregate, event_type=event.event_type, kind=kind, operation=operation, payload_json=payload
    )
    return Draft(
        index,
        event.event_id,
        aggregate,
        event.event_type,
        operation,
        _expected_seq(command),
        _given_number(event, mode),
        hashed,
        occurred_at_us(event.occurred_at) if event.occurred_at else now_us,
        payload,
        _metadata(event.metadata, kind),
        canonical_json(event.schema_version, field="schema_version"),
    )


def occurred_at_us(instant: dt.datetime) -> int:
    """The instant as it is stored; raises InvalidArgument for one that UTC cannot express."""
    try:
        since_epoch_us = microseconds(instant)
        utc(since_epoch_us)
    except ValueError:
        raise InvalidArgument("occurred_at", "needs a time zone") from None
    except OverflowError:
        raise InvalidArgument("occurred_at", "is outside the years 1 to 9999") from None
    return since_epoch_us


def _check_names(event: Event, kind: str) -> None:
    """Nearly all names are short and plain, so one check of all of them together is enough."""
    together = f"{event.event_id}{event.aggregate_type}{event.aggregate_id}{event.event_type}{kind}"
    plain = len(together) <= ID_BYTES_MAX and together.isascii() and "\x00" not in together
    if not (plain and event.event_id and event.event_type and kind):
        key_text("aggregate_type", event.aggregate_type, bytes_max=ID_BYTES_MAX)
        key_text("aggregate_id", event.aggregate_id)
        _named("event_id", event.event_id)
        _named("event_type", event.event_type)
        _named("kind", kind)


def _named(field: str, text: str) -> None:
    if not text:
        raise InvalidArgument(field, "must not be empty")
    key_text(field, text, bytes_max=ID_BYTES_MAX)


def _kind(event: Event) -> str:
    inner = event.metadata.get("kind", event.kind)
    kind = inner if event.kind is None else event.kind
    if kind is None:
        raise InvalidArgument("kind", "must be given")
    if inner != kind:
        raise InvalidArgument("kind", f"is {kind!r}, but metadata.kind is {inner!r}")
    if not isinstance(kind, str):
        raise InvalidArgument("metadata.kind", "must be text")
    return kind


def _metadata(given: dict[str, Any], kind: str) -> str:
    traceparent = current_traceparent()
    if traceparent is not None:
        given = {TRACEPARENT: traceparent, **given}
    if not given:
        return f'{{"kind":{quoted(kind)}}}'
    return canonical_json({**given, "kind": kind}, field="metadata")


def _expected_seq(command: Append) -> int | None:
    if command.expected_seq is not None:
        if not 0 <= command.expected_seq <= SEQUENCE_MAX:
            raise InvalidArgument("expected_seq", f"must be from 0 to {SEQUENCE_MAX}")
        return command.expected_seq
    operation = command.event.operation
    if operation is Operation.APPEND:
        return None
    if operation is Operation.CREATE:
        return 0
    raise InvalidArgument("expected_seq", f"must be given with operation {operation}")


def _given_number(event: Event, mode: AllocatorMode) -> int | None:
    number = event.sequence_number
    if mode is not AllocatorMode.OFF:
        if number is not None:
            raise InvalidArgument("sequence_number", "may be given only when the sequence allocator is off")
        return None
    if number is None:
        raise InvalidArgument("sequence_number", "must be given when the sequence allocator is off")
    if not 1 <= number <= SEQUENCE_MAX:
        raise InvalidArgument("sequence_number", f"must be from 1 to {SEQUENCE_MAX}")
    return number
