"""A fold that is the user's own function from a DataFrame of events to a DataFrame of rows.

When it fails, it is retried, and then the batch is halved, by the hash of each event's offset, until the
events on which it fails are isolated. They become dead letters; all others are applied.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from driftq.errors import FoldFailed, ProjectionError, Unavailable
from driftq.pipeline.projection.batch import PLACE_AND_EVENT, BatchMessages, events_of, read_non_events
from driftq.pipeline.projection.delivery import MakeDeadLetter, RetryBudget
from driftq.pipeline.projection.folds import FOLD, WRITE, BatchMessage, Folded, fold_latest, newest_changes
from driftq.sinks import Change, ProjectionDeadLetter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DataFrameFold = Callable[["DataFrame"], "DataFrame"]
"""From events to rows: aggregate_type, aggregate_id, sequence_number, state (JSON, null deletes)."""
_NEEDED = ("aggregate_type", "aggregate_id", "sequence_number", "state")
_BITS_MAX = 48


def run_user_fold(
    name: str, batch: DataFrame, fold: DataFrameFold, *, retry_budget: RetryBudget
) -> tuple[Folded, BatchMessages, MakeDeadLetter]:
    """The rows of the batch, the events that failed, and the function for a row's dead letter."""
    batch_messages = read_non_events(batch)
    folded = Folded(dead_letters=fold_latest(batch_messages.arrived).dead_letters)
    events = events_of(batch)
    try:
        changes = retry_budget.persist(lambda: _rows(name, events, fold))
    except (ProjectionError, Unavailable):
        raise
    except Exception:  # noqa: BLE001 - The function is the user's; the halves isolate the failing event.
        changes = []
        _isolate(name, events, fold, changes, folded.dead_letters)
    folded.changes = newest_changes(changes)

    def make_dead_letter(change: Change, why: str) -> ProjectionDeadLetter:
        """At the offset of the event that the row names; else at the end of the batch."""
        at = events.where(f.col("event_id") == change.event_id).select("topic", "partition", "offset").first()
        topic, partition, offset = at or max((*place, end) for place, end in batch_messages.positions.items())
        return ProjectionDeadLetter(topic, partition, offset, change.event_id, WRITE, why, change.state)

    return folded, batch_messages, make_dead_letter


def _isolate(
    name: str,
    events: DataFrame,
    fold: DataFrameFold,
    changes: list[Change],
    dead_letters: list[ProjectionDeadLetter],
    *,
    bits: int = 1,
    value: int = 0,
) -> None:
    """Fold one half after the other, and split each half that fails."""
    for half in (value, value | 1 << (bits - 1)):
        place = f.xxhash64("topic", "partition", "offset")
        part = events.where(f.pmod(place, f.lit(1 << bits)) == half)
        alone = part.limit(2).collect()
        if not alone:
            continue
        try:
            changes += _rows(name, part, fold)
        except (ProjectionError, Unavailable):
            raise
        except Exception as error:  # noqa: BLE001 - The error of the user's function is stored with the event.
            if len(alone) > 1 and bits < _BITS_MAX:
                _isolate(name, events, fold, changes, dead_letters, bits=bits + 1, value=half)
                continue
            for row in alone:
                told = BatchMessage._make([*(row[name] for name in PLACE_AND_EVENT), row.payload])
                dead_letters.append(told.fails(FOLD, f"{type(error).__name__}: {error}"))


def _rows(name: str, events: DataFrame, fold: DataFrameFold) -> list[Change]:
    rows = fold(events)
    missing = [column for column in _NEEDED if column not in rows.columns]
    if missing:
        raise FoldFailed(
            name, problem=f"returned no column {', '.join(missing)}; it needs {', '.join(_NEEDED)}"
        )
    event_id = f.col("event_id") if "event_id" in rows.columns else f.lit("")
    table = rows.select(
        f.col("aggregate_type").cast("string"),
        f.col("aggregate_id").cast("string"),
        f.col("sequence_number").cast("long"),
        f.coalesce(event_id.cast("string"), f.lit("")),
        f.col("state").cast("string"),
    ).toArrow()
    return [Change(*row) for row in zip(*(column.to_pylist() for column in table.columns), strict=True)]
