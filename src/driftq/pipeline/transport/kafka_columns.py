"""Messages of Kafka as Arrow rows: the columns that DriftQ's own topics have.

The names of an event are in its value, and in headers too. Parsing the value costs a third of unpacking the
headers, so headers are only looked at where a value has no names.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import pyarrow as arrow

from driftq.pipeline.transport.port import COLUMNS, NOT_TEXT
from driftq.tables.parquet import row_schema

if TYPE_CHECKING:
    from confluent_kafka import Message

SCHEMA = row_schema(COLUMNS)
NAMES = ("event_id", "aggregate_type", "aggregate_id", "sequence_number")
"""The first headers of a published event, in this order."""
_Sequence = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]


class _Names(msgspec.Struct, gc=False):
    """What a value says of its event."""

    event_id: str | None = None
    aggregate_type: str | None = None
    aggregate_id: str | None = None
    sequence_number: _Sequence | None = None


_decode = msgspec.json.Decoder(_Names).decode
_decode_sequence = msgspec.json.Decoder(_Sequence).decode
_NOTHING = _Names()


def to_rows(topic: str, partition: int, messages: Sequence[Message]) -> arrow.RecordBatch:
    """One row a message."""
    values = [message.value() for message in messages]
    names = _names_in(messages, values)
    made = {
        "topic": _repeated(topic, len(values), "topic"),
        "partition": _repeated(partition, len(values), "partition"),
        "offset": arrow.array([message.offset() for message in messages], arrow.int64()),
        "timestamp": arrow.array(
            [message.timestamp()[1] for message in messages], arrow.timestamp("ms", "UTC")
        ),
        "key": _texts([message.key() for message in messages]),
        "value": _texts(values),
        "event_id": [each.event_id for each in names],
        "aggregate_type": [each.aggregate_type for each in names],
        "aggregate_id": [each.aggregate_id for each in names],
        "sequence_number": [each.sequence_number for each in names],
    }
    columns = [_typed(made[field.name], field.type) for field in SCHEMA]
    return arrow.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _repeated(value: Any, count: int, name: str) -> arrow.Array:
    return arrow.repeat(arrow.scalar(value, SCHEMA.field(name).type), count)


def _typed(column: Any, kind: arrow.DataType) -> arrow.Array:
    return column.cast(kind) if isinstance(column, arrow.Array) else arrow.array(column, kind)


def _texts(values: Sequence[Any]) -> arrow.Array:
    """Keys or values as texts; bytes that are none follow NOT_TEXT, and null stays null."""
    try:
        return arrow.array(values, arrow.binary()).cast(arrow.string())
    except arrow.ArrowInvalid:  # One of them, at least, is no UTF-8.
        return arrow.array([None if value is None else _text(value) for value in values], arrow.string())


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return NOT_TEXT + base64.b64encode(value).decode()


def _names_in(messages: Sequence[Message], values: Sequence[Any]) -> list[_Names]:
    try:
        names = list(map(_decode, values))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, TypeError):
        names = list(map(_names_or_none, values))
    if any(each.event_id is None for each in names):
        return [
            each if each.event_id is not None else _names_in_headers(message)
            for each, message in zip(names, messages, strict=True)
        ]
    return names


def _names_or_none(value: bytes | None) -> _Names:
    try:
        return _NOTHING if value is None else _decode(value)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _NOTHING


def _names_in_headers(message: Message) -> _Names:
    """Of the publisher's own headers, which come first; of other messages nothing."""
    headers: Any = message.headers() or ()
    if tuple(name for name, _ in headers[: len(NAMES)]) != NAMES:
        return _NOTHING
    try:
        event_id, kind, aggregate_id, sequence = (bytes(value).decode() for _, value in headers[: len(NAMES)])
        return _Names(event_id, kind, aggregate_id, _decode_sequence(sequence))
    except (msgspec.MsgspecError, UnicodeDecodeError, TypeError):
        return _NOTHING
