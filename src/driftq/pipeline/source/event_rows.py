"""Rows of the event log, as Spark's tasks get them, back to events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as arrow

from driftq.eventstore.seal.segment import SCHEMA
from driftq.eventstore.stored import StoredEvent


def stored_events(batch: arrow.RecordBatch) -> Iterator[StoredEvent]:
    """The events of one batch, in its order."""
    columns = [_values(batch.column(field.name), field.type) for field in SCHEMA]
    for row in zip(*columns, strict=True):
        yield StoredEvent(*row)


def _values(column: Any, kind: Any) -> list[Any]:
    """A column as plain values; an instant as its microseconds."""
    if arrow.types.is_timestamp(kind):
        column = column.cast(kind).view(arrow.int64())
    return list(column.to_pylist())
