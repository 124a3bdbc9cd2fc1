"""Filters a task's rows for readers that only need the newest message of each aggregate, or key.

Where a message carries the whole state, a later one supersedes it. A task drops superseded rows, so that they
never cross into Spark. A row is dropped only if a newer one of its aggregate stays that is certainly
readable: where the newest is unreadable all stay, and the one before it can count. A row that is no event
stays, and so does the last row, which shows how far the task has read. An aggregate may still occur several
times: other tasks have rows of it, and a task holds a limited number at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as arrow
from pyarrow import compute

from driftq.eventstore.published import decode_state_event

if TYPE_CHECKING:
    from numpy.typing import NDArray

HELD_BYTES = 64 << 20
"""Of rows, until a task checks which of them are superseded."""
SURE_CHARACTERS = 256
"""A text of at most this many characters is within the byte limit of a key."""
_NAMES = {"aggregate_id": ("aggregate_id", "aggregate_type"), "key": ("key",)}
_ORDER = {"aggregate_id": "sequence_number", "key": "offset"}
_DECODE = {"aggregate_id": decode_state_event, "key": msgspec.json.Decoder().decode}
"""A value can be read if this decodes it."""


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
    """The remaining rows of one partition, in the order of their offsets."""
    table = arrow.Table.from_batches(batches)
    stays = np.ones(table.num_rows, dtype=np.bool_)
    rows = np.flatnonzero(_comparable(table, by=by))
    if len(rows):
        groups = _groups([table[name] for name in _NAMES[by]], rows)
        newest = rows[_newest(groups, table[_ORDER[by]].to_numpy()[rows])]
        contested = np.flatnonzero(np.bincount(groups) > 1)
        sure = np.ones(len(newest), dtype=np.bool_)
        sure[contested] = _readable(table["value"], newest[contested], by=by)
        stays[rows[sure[groups]]] = False
        stays[newest] = True
        stays[-1] = True
    if stays.all():
        return list(batches)
    kept: list[arrow.RecordBatch] = table.filter(arrow.array(stays)).combine_chunks().to_batches()
    return kept


def _comparable(table: arrow.Table, *, by: str) -> NDArray[np.bool_]:
    """Rows with a sequence, and with names that are certainly valid keys of a read model."""
    names = (*_NAMES[by], "event_id") if by == "aggregate_id" else _NAMES[by]
    fit = compute.is_valid(table["value"])
    fit = compute.and_(fit, compute.greater_equal(table[_ORDER[by]], 0 if by == "key" else 1))
    for name in names:
        length = compute.utf8_length(table[name])
        fit = compute.and_(fit, compute.greater(length, 0))
        fit = compute.and_(fit, compute.less_equal(length, SURE_CHARACTERS))
        fit = compute.and_(fit, compute.invert(compute.match_substring(table[name], "\x00")))
    return np.asarray(compute.fill_null(fit, fill_value=False).to_numpy(), dtype=np.bool_)


def _groups(columns: Sequence[arrow.ChunkedArray], rows: NDArray[Any]) -> NDArray[Any]:
    """A number for each of these rows, the same for those that agree in every column."""
    groups = np.zeros(len(rows), dtype=np.int64)
    for column in columns:
        texts = column.combine_chunks().dictionary_encode()
        groups = groups * max(1, len(texts.dictionary)) + texts.indices.fill_null(0).to_numpy()[rows]
    return np.unique(groups, return_inverse=True)[1]


def _newest(groups: NDArray[Any], sequences: NDArray[Any]) -> NDArray[Any]:
    """For each group the index of its highest sequence; of equal ones the first."""
    backwards = np.arange(len(groups))[::-1]
    rising = backwards[np.argsort(sequences[backwards], kind="stable")]
    newest = np.empty(groups.max() + 1, dtype=np.int64)
    newest[groups[rising]] = rising  # Of several for one group the last one stays.
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
