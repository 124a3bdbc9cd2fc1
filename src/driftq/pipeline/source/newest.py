"""Filters a task's rows for readers that only need the newest message of each aggregate, or key.

Where a message carries the whole state, a later one supersedes it. A task drops superseded rows, so that they
never cross into Spark. A row is dropped only if a newer one of its aggregate stays that is certainly
readable: where the newest is unreadable all stay, and the one before it can count. A row that is no event
stays, and so does the last row, which shows how far the task has read. An aggregate may still occur several
times: other tasks have rows of it, and a task holds a limited number at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as arrow
from pyarrow import compute

from driftq.eventstore.published import decode_state_event
from driftq.sql import KEY_BYTES_MAX

if TYPE_CHECKING:
    from numpy.typing import NDArray

HELD_BYTES = 64 << 20
"""Of rows, until a task checks which of them are superseded."""
WORTH_DROPPING = 0.2
"""Of a task's rows: copying the others costs more than to hand on fewer."""
_NAMES = {"aggregate_id": ("aggregate_id", "aggregate_type"), "key": ("key", "topic")}
_ORDER = {"aggregate_id": "sequence_number", "key": "offset"}
_DECODE = {"aggregate_id": decode_state_event, "key": msgspec.json.Decoder().decode}
"""A value can be read if this decodes it."""


class NewestRows(NamedTuple):
    """Rows of a table by aggregate, or key, as far as they can be compared."""

    rows: NDArray[Any]
    """Their indexes in the table; the others are no events, or have an odd name."""
    groups: NDArray[Any]
    """For each of them the number of its group."""
    newest: NDArray[Any]
    """For each group the index in the table of its newest row, and of equal ones the first."""


def newest_only(batches: Iterable[arrow.RecordBatch], *, by: str) -> Iterator[arrow.RecordBatch]:
    """The same rows in the same order, without superseded ones."""
    held: list[arrow.RecordBatch] = []
    size = 0
    for batch in batches:
        held.append(batch)
        size += batch.nbytes
        if size >= HELD_BYTES:
            held = without_overtaken(held, by=by)
            size = sum(each.nbytes for each in held)
            if size > HELD_BYTES // 2:  # Few are dropped: another check would cost more than it saves.
                yield from held
                held, size = [], 0
    if held:
        yield from without_overtaken(held, by=by)


def without_overtaken(batches: Sequence[arrow.RecordBatch], *, by: str) -> list[arrow.RecordBatch]:
    """The remaining rows of one partition, in the order of their offsets; all, where few are superseded."""
    table = arrow.Table.from_batches(batches)
    rows, groups, newest = find_newest(table, by=by)
    if not len(rows) or len(rows) - len(newest) < WORTH_DROPPING * table.num_rows:
        return list(batches)
    contested = np.flatnonzero(np.bincount(groups) > 1)
    sure = np.ones(len(newest), dtype=np.bool_)
    sure[contested] = _readable(table["value"], newest[contested], by=by)
    stays = np.ones(table.num_rows, dtype=np.bool_)
    stays[rows[sure[groups]]] = False
    stays[newest] = True
    stays[-1] = True
    kept: list[arrow.RecordBatch] = table.filter(arrow.array(stays)).combine_chunks().to_batches()
    return kept


def find_newest(table: arrow.Table, *, by: str) -> NewestRows:
    """The newest row of each aggregate, or key."""
    rows = np.flatnonzero(_comparable(table, by=by))
    if not len(rows):
        return NewestRows(rows, rows, rows)
    groups = _groups([table[name] for name in _NAMES[by]], rows)
    return NewestRows(rows, groups, rows[_newest(groups, table[_ORDER[by]].to_numpy()[rows])])


def _comparable(table: arrow.Table, *, by: str) -> NDArray[np.bool_]:
    """Rows with a sequence, and with names that are certainly valid keys of a read model."""
    names = (*_NAMES[by], "event_id") if by == "aggregate_id" else _NAMES[by]
    fit = compute.is_valid(table["value"])
    fit = compute.and_(fit, compute.greater_equal(table[_ORDER[by]], 0 if by == "key" else 1))
    for name in names:
        length = compute.binary_length(table[name])
        fit = compute.and_(fit, compute.greater(length, 0))
        fit = compute.and_(fit, compute.less_equal(length, KEY_BYTES_MAX))
        if _has_nul(table[name]):
            fit = compute.and_(fit, compute.invert(compute.match_substring(table[name], "\x00")))
    return np.asarray(compute.fill_null(fit, fill_value=False).to_numpy(), dtype=np.bool_)


def _has_nul(column: arrow.ChunkedArray) -> bool:
    """Whether any byte of the texts could be NUL; looks at all of them at once."""
    buffers = (chunk.buffers()[2] for chunk in column.chunks)
    return any(not np.frombuffer(one, np.uint8).all() for one in buffers if one is not None and one.size)


def _groups(columns: Sequence[arrow.ChunkedArray], rows: NDArray[Any]) -> NDArray[Any]:
    """A number for each of these rows, from 0 without gaps, the same for those that agree in every column."""
    groups = np.zeros(len(rows), dtype=np.int64)
    several = 0
    for column in columns:
        texts = column.combine_chunks().dictionary_encode()
        distinct = len(texts.dictionary)
        if distinct > 1:
            groups = groups * distinct + texts.indices.fill_null(0).to_numpy()[rows]
            several += 1
    if several == 1 and len(rows) == len(columns[0]):
        return groups  # The numbers of one dictionary have no gaps.
    return np.unique(groups, return_inverse=True)[1]


def _newest(groups: NDArray[Any], sequences: NDArray[Any]) -> NDArray[Any]:
    """For each group the index of its highest sequence; of equal ones the first."""
    newest = np.empty(groups.max() + 1, dtype=np.int64)
    newest[groups] = np.arange(len(groups))  # Of several for one group the last one stays.
    highest = sequences[newest][groups]
    if (sequences < highest).sum() == len(groups) - len(newest):
        return newest  # As they nearly always arrive: in order, and each once.
    backwards = np.arange(len(groups))[::-1]
    rising = backwards[np.argsort(sequences[backwards], kind="stable")]
    newest[groups[rising]] = rising
    return newest


def _readable(values: arrow.ChunkedArray, rows: NDArray[Any], *, by: str) -> NDArray[np.bool_]:
    """Which of these rows are readable."""
    wanted = np.zeros(len(values), dtype=np.bool_)
    wanted[rows] = True
    texts = values.filter(arrow.array(wanted)).to_pylist()  # Taking by index would join all values first.
    readable = np.empty(len(rows), dtype=np.bool_)
    decode: Callable[[str], object] = _DECODE[by]
    readable[np.argsort(rows)] = [_decodes(decode, text) for text in texts]
    return readable


def _decodes(decode: Callable[[str], object], text: str) -> bool:
    try:
        decode(text)
    except (ValueError, RecursionError):
        return False
    return True
