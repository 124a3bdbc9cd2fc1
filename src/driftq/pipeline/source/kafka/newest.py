"""Messages of one partition as rows, without those that a newer one of the same aggregate or key overtakes.

A message is dropped only if a newer one stays that is certainly readable. One that is no event, or cannot be
read, stays: it becomes a dead letter, and the one before it counts. The last message stays too: it shows how
far the task has read. An aggregate may occur several times, because a task holds a limited number at once.

The event is taken from the value, and from the publisher's headers where the value alone is not one. Which
rows stay depends on the messages alone, not on how they arrive: a range that is read again gives the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import pyarrow as arrow

from driftq.errors import InvalidArgument
from driftq.eventstore.published import StateEvent
from driftq.pipeline.source.reading import BATCH_ROWS
from driftq.pipeline.transport.port import COLUMNS, EVENT_HEADERS, as_text
from driftq.sql import KEY_BYTES_MAX, key_text
from driftq.tables.parquet import row_schema

if TYPE_CHECKING:
    from confluent_kafka import Message

HELD_BYTES = 64 << 20
"""Of values, until a task hands on what it holds."""
SCHEMA = row_schema(COLUMNS)
_HELD_EACH = 512
"""Bytes that a held message takes beside its value, about."""
_Sequence = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]


class _StateOf(StateEvent, kw_only=True, gc=False):
    """A value that says by itself which aggregate it is the state of."""

    aggregate_type: str
    aggregate_id: str
    sequence_number: _Sequence


class _EventColumns(msgspec.Struct, gc=False):
    """The columns of an event, as far as a message has them."""

    event_id: str | None = None
    aggregate_type: str | None = None
    aggregate_id: str | None = None
    sequence_number: _Sequence | None = None


_Columns = _StateOf | _EventColumns | None
_Readable = tuple[object, int, _Columns]
"""What a message is about, its order among others about the same, and its columns where they are known."""
_Held = tuple[int, "Message", _Columns]
"""A message with its order."""
_Row = tuple[int, "Message", _Columns]
"""A message with its offset."""

_decode_state = msgspec.json.Decoder(_StateOf).decode
_decode_columns = msgspec.json.Decoder(_EventColumns).decode
_decode_json = msgspec.json.Decoder().decode
_UNREADABLE = (ValueError, RecursionError)


def newest_rows(lists: Iterable[list[Message]], *, by: str) -> Iterator[arrow.RecordBatch]:
    """The remaining messages in the order of their offsets. `lists` are those of one partition, in order."""
    read = _READ[by]
    newest: dict[object, _Held] = {}
    others: list[Message] = []
    size = 0
    last: Message | None = None
    for messages in lists:
        for message in messages:
            last = message
            readable = read(message)
            if readable is None:
                others.append(message)
                size += len(message) + _HELD_EACH
            else:
                about, order, columns = readable
                held = newest.get(about)
                if held is None:
                    newest[about] = order, message, columns
                    size += len(message) + _HELD_EACH
                elif held[0] < order:
                    newest[about] = order, message, columns
                    size += len(message) - len(held[1])
            if size >= HELD_BYTES:
                yield from _rows(newest, others, last)
                newest, others, size, last = {}, [], 0, None
    if last is not None:
        yield from _rows(newest, others, last)


def _read_state(message: Message) -> _Readable | None:
    """The state of an aggregate; None where it has to be looked at alone."""
    value = message.value()
    if value is None:
        return None
    try:
        event = _decode_state(
            value.decode()
        )  # The payload's bytes, which are not looked at, are checked too.
    except _UNREADABLE:
        return None
    kind, aggregate_id, sequence = event.aggregate_type, event.aggregate_id, event.sequence_number
    if sequence < 1 or not _are_names(kind, aggregate_id, event.event_id):
        return None
    return (aggregate_id, kind), sequence, event


def _read_value(message: Message) -> _Readable | None:
    """The value of a key; None where it has to be looked at alone."""
    key, value = message.key(), message.value()
    if not key or value is None:
        return None
    try:
        _decode_json(value.decode())
        name = key.decode()
    except _UNREADABLE:
        return None
    offset = message.offset()
    assert offset is not None
    return (name, offset, None) if _are_names(name) else None


_READ: dict[str, Callable[[Message], _Readable | None]] = {"aggregate_id": _read_state, "key": _read_value}


def _are_names(*texts: str) -> bool:
    """Whether all of them are certainly valid keys of a read model."""
    if not all(texts):
        return False
    together = "".join(texts)
    if len(together) <= KEY_BYTES_MAX and together.isascii() and "\x00" not in together:
        return True  # Nearly all are.
    try:
        for text in texts:
            key_text("name", text)
    except InvalidArgument:
        return False
    return True


def _rows(
    newest: dict[object, _Held], others: Iterable[Message], last: Message
) -> Iterator[arrow.RecordBatch]:
    rows: list[_Row] = [(_offset(message), message, columns) for _, message, columns in newest.values()]
    rows += [(_offset(message), message, None) for message in others]
    rows.sort(key=itemgetter(0))
    if not rows or rows[-1][0] != _offset(last):
        rows.append((_offset(last), last, None))
    for first in range(0, len(rows), BATCH_ROWS):
        yield _batch(rows[first : first + BATCH_ROWS])


def _batch(rows: Sequence[_Row]) -> arrow.RecordBatch:
    messages = [message for _, message, _ in rows]
    events = [_columns_of(message) if columns is None else columns for _, message, columns in rows]
    times_ms = arrow.array([message.timestamp()[1] for message in messages], arrow.timestamp("ms", "UTC"))
    made: dict[str, Any] = {
        "topic": arrow.repeat(messages[0].topic(), len(rows)),
        "partition": arrow.repeat(arrow.scalar(messages[0].partition(), arrow.int32()), len(rows)),
        "offset": arrow.array([offset for offset, _, _ in rows], arrow.int64()),
        "timestamp": times_ms,
        "key": _texts([message.key() for message in messages]),
        "value": _texts([message.value() for message in messages]),
        "event_id": arrow.array([event.event_id for event in events], arrow.string()),
        "aggregate_type": arrow.array([event.aggregate_type for event in events], arrow.string()),
        "aggregate_id": arrow.array([event.aggregate_id for event in events], arrow.string()),
        "sequence_number": arrow.array([event.sequence_number for event in events], arrow.int64()),
    }
    columns = [made[field.name].cast(field.type) for field in SCHEMA]
    return arrow.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _texts(values: list[bytes | None]) -> arrow.Array:
    """All at once where all are UTF-8."""
    try:
        return arrow.array(values, arrow.binary()).cast(arrow.string())
    except arrow.ArrowInvalid:
        return arrow.array([None if each is None else as_text(each) for each in values], arrow.string())


def _columns_of(message: Message) -> _StateOf | _EventColumns:
    """From the publisher's headers, where they are there, else from the value."""
    headers: Any = message.headers() or ()
    first = headers[: len(EVENT_HEADERS)]
    if tuple(name for name, _ in first) == EVENT_HEADERS:
        said = (None if value is None else as_text(value) for _, value in first)
        event_id, kind, aggregate_id, sequence = said
        return _EventColumns(event_id, kind, aggregate_id, _number(sequence))
    try:
        return _decode_columns(message.value() or b"")
    except _UNREADABLE:
        return _EventColumns()


def _number(text: str | None) -> int | None:
    """A sequence; None for what is none that Spark can hold."""
    try:
        return msgspec.convert(text, _Sequence, strict=False)
    except msgspec.ValidationError:
        return None


def _offset(message: Message) -> int:
    offset = message.offset()
    assert offset is not None  # Only a message of a producer has none.
    return offset
