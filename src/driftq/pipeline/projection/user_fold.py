"""A fold that is the user's own function from a DataFrame of events to a DataFrame of rows.

When it fails, it is retried, and then the batch is halved, by the hash of each event's offset, until the
events on which it fails are isolated. They become dead letters; all others are applied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from pyspark.sql import functions as f

from driftq.errors import FoldFailed, ProjectionError, Unavailable
from driftq.pipeline.projection.batch import PLACE_AND_EVENT, events_of, read_ends
from driftq.pipeline.projection.delivery import RetryBudget
from driftq.pipeline.projection.folds import FOLD, WRITE, BatchMessage
from driftq.sinks import Change, ProjectionDeadLetter, RefusedChange

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DataFrameFold = Callable[["DataFrame"], "DataFrame"]
"""From events to rows: aggregate_type, aggregate_id, sequence_number, state (JSON, null deletes)."""
_Taken = TypeVar("_Taken")
Take = Callable[["DataFrame"], _Taken]
"""Runs a job on rows: it gathers them, or has tasks write them."""
_NEEDED = ("aggregate_type", "aggregate_id", "sequence_number", "state")
_BITS_MAX = 48


def run_user_fold(
    name: str, batch: DataFrame, fold: DataFrameFold, take: Take[_Taken], *, retry_budget: RetryBudget
) -> tuple[list[_Taken], list[ProjectionDeadLetter]]:
    """What `take` made of the rows of the batch, part by part, and the events that failed."""
    events = events_of(batch)
    taken: list[_Taken] = []
    dead_letters: list[ProjectionDeadLetter] = []
    try:
        taken.append(retry_budget.retry(lambda: take(_rows(name, events, fold))))
    except (ProjectionError, Unavailable):
        raise
    except Exception:  # noqa: BLE001 - The function is the user's; the halves isolate the failing event.
        _isolate(name, events, fold, take, taken, dead_letters)
    return taken, dead_letters


def gather_rows(rows: DataFrame) -> list[Change]:
    """The rows of a fold, in the driver."""
    columns = rows.toArrow().columns
    return [Change(*row) for row in zip(*(column.to_pylist() for column in columns), strict=True)]


def dead_letters_of_rows(batch: DataFrame, refused: Sequence[RefusedChange]) -> list[ProjectionDeadLetter]:
    """At the offset of the event that each row names; else at the end of the batch."""
    ids = sorted({each.change.event_id for each in refused})
    found = events_of(batch).where(f.col("event_id").isin(ids)).select("event_id", *PLACE_AND_EVENT[:3])
    places: dict[str, tuple[str, int, int]] = {row.event_id: tuple(row[1:]) for row in found.collect()}
    end = max((*place[:2], offset) for place, offset in read_ends(batch).items())
    dead_letters: list[ProjectionDeadLetter] = []
    for change, error in refused:
        topic, partition, offset = places.get(change.event_id, end)
        dead_letters.append(
            ProjectionDeadLetter(
                topic,
                partition,
                offset,
                change.event_id,
                WRITE,
                error,
                change.state,
                key=change.aggregate_id,
            )
        )
    return dead_letters


def _isolate(
    name: str,
    events: DataFrame,
    fold: DataFrameFold,
    take: Take[_Taken],
    taken: list[_Taken],
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
            taken.append(take(_rows(name, part, fold)))
        except (ProjectionError, Unavailable):
            raise
        except Exception as error:  # noqa: BLE001 - The error of the user's function is stored with the event.
            if len(alone) > 1 and bits < _BITS_MAX:
                _isolate(name, events, fold, take, taken, dead_letters, bits=bits + 1, value=half)
                continue
            for row in alone:
                told = BatchMessage._make([*(row[name] for name in PLACE_AND_EVENT), row.payload])
                dead_letters.append(told.fails(FOLD, f"{type(error).__name__}: {error}"))


def _rows(name: str, events: DataFrame, fold: DataFrameFold) -> DataFrame:
    """In the columns of a Change."""
    rows = fold(events)
    missing = [column for column in _NEEDED if column not in rows.columns]
    if missing:
        raise FoldFailed(
            name, problem=f"returned no column {', '.join(missing)}; it needs {', '.join(_NEEDED)}"
        )
    event_id = f.col("event_id") if "event_id" in rows.columns else f.lit("")
    return rows.select(
        f.col("aggregate_type").cast("string"),
        f.col("aggregate_id").cast("string"),
        f.col("sequence_number").cast("long"),
        f.coalesce(event_id.cast("string"), f.lit("")).alias("event_id"),
        f.col("state").cast("string"),
    )
