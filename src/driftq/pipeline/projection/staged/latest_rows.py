"""The fold `latest_state` on Arrow rows: nearly all of them as columns, and odd ones as messages.

The result is that of `fold_latest`: the newest readable event of each aggregate. Where the newest cannot be
read, all events of its aggregate are folded one by one, and so is what is no event.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from driftq.eventstore.published import decode_state_event
from driftq.model import Operation
from driftq.pipeline.projection.folds import BatchMessage, fold_latest
from driftq.pipeline.source.newest import find_newest
from driftq.pipeline.transport.port import as_text
from driftq.sinks import ProjectionDeadLetter
from driftq.sinks.arrow_rows import CHANGES, as_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

MESSAGE = (
    "topic",
    "partition",
    "offset",
    "event_id",
    "aggregate_type",
    "aggregate_id",
    "sequence_number",
    "value",
)
"""The columns of a message, in the order of BatchMessage; by key, `key` is in the place of the id."""
_UNREADABLE = object()


def message_columns(*, keyed: bool) -> tuple[str, ...]:
    return tuple("key" if keyed and name == "aggregate_id" else name for name in MESSAGE)


def fold_rows(table: pa.Table, *, keyed: bool) -> tuple[pa.Table, list[ProjectionDeadLetter]]:
    """The changes, at most a few for an aggregate, and the messages that cannot be read.

    Values are texts or bytes. Bytes that are no text become the same dead letter as on the driver.
    """
    table = _with_texts(table)
    rows, groups, newest = find_newest(table, by="key" if keyed else "aggregate_id")
    alone = np.ones(table.num_rows, dtype=np.bool_)
    alone[rows] = False
    newest = np.sort(newest)
    changes, readable = _by_key(table, newest) if keyed else _events(table, newest)
    if not readable.all():
        unreadable = np.zeros(table.num_rows, dtype=np.bool_)
        unreadable[newest[~readable]] = True
        failed = np.zeros(len(newest), dtype=np.bool_)
        failed[groups[unreadable[rows]]] = True
        alone[rows[failed[groups]]] = True
    if not alone.any():
        return changes, []
    folded = fold_latest(messages(table.filter(pa.array(alone)), keyed=keyed), keyed=keyed)
    more = as_table(folded.changes, CHANGES)
    return pa.concat_tables([changes, more]), folded.dead_letters


def messages(table: pa.Table, *, keyed: bool = False) -> Iterator[BatchMessage]:
    """The rows one by one."""
    columns = [table[name].to_pylist() for name in message_columns(keyed=keyed)]
    return (BatchMessage(*row) for row in zip(*columns, strict=True))


def _with_texts(table: pa.Table) -> pa.Table:
    """The same rows, and their values as texts."""
    values = table["value"]
    if pa.types.is_string(values.type):
        return table
    try:
        texts = values.cast(pa.string())
    except pa.ArrowInvalid:  # One of them, at least, is no UTF-8.
        texts = pa.chunked_array([[None if each is None else as_text(each) for each in values.to_pylist()]])
    return table.set_column(table.column_names.index("value"), "value", texts)


def _events(table: pa.Table, newest: NDArray[Any]) -> tuple[pa.Table, NDArray[np.bool_]]:
    """The changes of these rows, whose names are valid, and which of the rows are readable."""
    picked = _picked(table, newest)
    states = _states(picked["value"].to_pylist())
    readable = np.fromiter((state is not _UNREADABLE for state in states), np.bool_, len(states))
    if not readable.all():
        picked = picked.filter(pa.array(readable))
        states = [state for state in states if state is not _UNREADABLE]
    columns = [picked[field.name].cast(field.type) for field in CHANGES if field.name != "state"]
    state = pa.array(states, pa.binary()).view(pa.string())  # The decoder has checked that it is text.
    return pa.table([*columns, state], schema=CHANGES), readable


def _states(values: Sequence[str]) -> list[Any]:
    try:
        return [_state(value) for value in values]
    except (ValueError, RecursionError):
        return [_state_or_mark(value) for value in values]


def _state(value: str) -> bytes | None:
    stated = decode_state_event(value)
    return None if stated.operation is Operation.DELETE else bytes(stated.payload)


def _state_or_mark(value: str) -> Any:
    try:
        return _state(value)
    except (ValueError, RecursionError):
        return _UNREADABLE


def _by_key(table: pa.Table, newest: NDArray[Any]) -> tuple[pa.Table, NDArray[np.bool_]]:
    picked = _picked(table, newest)
    folded = fold_latest(messages(picked, keyed=True), keyed=True)
    readable = np.ones(len(newest), dtype=np.bool_)
    if folded.dead_letters:
        failed = {dead[:3] for dead in folded.dead_letters}
        readable[:] = [each[:3] not in failed for each in messages(picked, keyed=True)]
    return as_table(folded.changes, CHANGES), readable


def _picked(table: pa.Table, rows: NDArray[Any]) -> pa.Table:
    """These rows; taking them by index would join all values first."""
    if len(rows) == table.num_rows:
        return table
    wanted = np.zeros(table.num_rows, dtype=np.bool_)
    wanted[rows] = True
    return table.filter(pa.array(wanted))
