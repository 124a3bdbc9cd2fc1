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
    sequence_number: Annotated[int, msgspec.Meta(ge=1, le=(1 << 63) - 1)]


class _EventColumns(msgspec.Struct, gc=False):
    """The columns of an event, as far as a message has them."""

    event_id: str | None = None
    aggregate_type: str | None = None
    aggregate_id: str | None = None
    sequence_number: _Sequence | None = None


_Readable = tuple[object, int, str | None]
"""What a message is about, its order among others about the same, and the id of its event."""
_Held = tuple[int, "Message", str | None]
"""A message with its order, and the id of its event."""
_Row = tuple[int, "Message", _EventColumns | None]
"""A message with its offset, and its columns where they are known."""

_states = msgspec.json.Decoder(_StateOf)
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
        for message, readable in zip(messages, read(messages), strict=True):
            last = message
            if readable is None:
                others.append(message)
                size += len(message) + _HELD_EACH
            else:
                about, order, event_id = readable
                held = newest.get(about)
                if held is None:
                    newest[about] = order, message, event_id
                    size += len(message) + _HELD_EACH
                elif held[0] < order:
                    newest[about] = order, message, event_id
                    size += len(message) - len(held[1])
            if size >= HELD_BYTES:
                yield from _rows(newest, others, last)
                newest, others, size, last = {}, [], 0, None
    if last is not None:
        yield from _rows(newest, others, last)


def _read_states(messages: list[Message]) -> list[_Readable | None]:
    """The states of aggregates; None for what has to be looked at alone.

    Nearly always each value is an event on one line: then all are decoded, and their names checked, at once.
    """
    values = [message.value() or b"" for message in messages]
    try:
        text = b"\n".join(values).decode()  # The payloads, which are not looked at, are checked too.
        events = _states.decode_lines(text) if text.count("\n") == len(values) - 1 else []
    except _UNREADABLE:
        events = []
    if len(events) != len(values):
        return [_read_state(value) for value in values]
    names = [name for each in events for name in (each.event_id, each.aggregate_type, each.aggregate_id)]
    if not _are_names(names):
        return [_read_state(value) for value in values]
    return [
        ((each.aggregate_id, each.aggregate_type), each.sequence_number, each.event_id) for each in events
    ]


def _read_state(value: bytes) -> _Readable | None:
    try:
        event = _states.decode(value.decode())
    except _UNREADABLE:
        return None
    if not _are_names([event.event_id, event.aggregate_type, event.aggregate_id]):
        return None
    return (event.aggregate_id, event.aggregate_type), event.sequence_number, event.event_id


def _read_values(messages: list[Message]) -> list[_Readable | None]:
    """The values of keys; None for what has to be looked at alone."""
    return [_read_value(message) for message in messages]


def _read_value(message: Message) -> _Readable | None:
    key, value = message.key(), message.value()
    if not key or value is None:
        return None
    try:
        _decode_json(value.decode())
        name = key.decode()
    except _UNREADABLE:
        return None
    return (name, _offset(message), None) if _are_names([name]) else None


_READ: dict[str, Callable[[list[Message]], list[_Readable | None]]] = {
    "aggregate_id": _read_states,
    "key": _read_values,
}


def _are_names(names: list[str]) -> bool:
    """Whether all of them are certainly valid keys of a read model."""
    together = "".join(names)
    if all(names) and max(map(len, names)) <= KEY_BYTES_MAX and together.isascii() and "\x00" not in together:
        return True  # Nearly all are.
    try:
        return all(names) and all(key_text("name", name) for name in names)
    except InvalidArgument:
        return False


def _rows(
    newest: dict[object, _Held], others: Iterable[Message], last: Message
) -> Iterator[arrow.RecordBatch]:
    rows: list[_Row] = [
        (_offset(message), message, _columns(about, order, event_id))
        for about, (order, message, event_id) in newest.items()
    ]
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


def _columns(about: Any, order: int, event_id: str | None) -> _EventColumns | None:
    """Of a state; a value by key has none."""
    return None if event_id is None else _EventColumns(event_id, about[1], about[0], order)


def _columns_of(message: Message) -> _EventColumns:
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
