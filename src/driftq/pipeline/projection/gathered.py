"""Batches that the driver gathers and folds itself, for targets that tasks cannot write.

They are bounded by the driver's memory: `Projection.batch_messages_max` limits the messages of one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from driftq.model import Aggregate
from driftq.pipeline.projection.batch import read_aggregates, read_all, read_newest, read_non_events
from driftq.pipeline.projection.delivery import RetryBudget
from driftq.pipeline.projection.folds import (
    BatchMessage,
    Folded,
    Ordered,
    fold_latest,
    fold_ordered,
    newest_changes,
)
from driftq.pipeline.projection.user_fold import DataFrameFold, gather_rows, run_user_fold
from driftq.sinks import ReadModel, TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class GatheredBatch:
    """What a batch comes to, and the last offset of each of its partitions."""

    folded: Folded
    positions: Mapping[TopicPartition, int]


def gather_latest(batch: DataFrame, *, keyed: bool) -> GatheredBatch:
    """The newest readable state of each aggregate, or key."""
    found = read_newest(batch, keyed=keyed)
    folded = fold_latest(found.arrived, keyed=keyed)
    if unreadable := _unreadable(folded, found.arrived):
        # The newest event of these is a dead letter: the one before it counts.
        others = [each for each in found.arrived if each[4:6] not in unreadable]
        theirs = read_aggregates(batch, sorted(unreadable), keyed=keyed)
        folded = fold_latest([*others, *theirs], keyed=keyed)
    return GatheredBatch(folded, found.positions)


def gather_ordered(
    batch: DataFrame, model: ReadModel, *, fold: Ordered, retry_budget: RetryBudget
) -> GatheredBatch:
    """Every aggregate folded on from its row in this target."""
    found = read_all(batch)
    aggregates = list(
        {
            Aggregate(each.aggregate_type, each.aggregate_id)
            for each in found.arrived
            if each.aggregate_type is not None and each.aggregate_id is not None
        }
    )
    folded = fold_ordered(
        found.arrived,
        current=retry_budget.outlast(partial(model.current, aggregates)),
        waiting=retry_budget.outlast(partial(model.waiting, aggregates)),
        step=fold.step,
        retries=retry_budget.retries,
        pause=retry_budget.pause,
    )
    return GatheredBatch(folded, found.positions)


def gather_user_fold(
    name: str, batch: DataFrame, *, fold: DataFrameFold, retry_budget: RetryBudget
) -> GatheredBatch:
    """The rows of a user's fold, the newest of each aggregate."""
    others = read_non_events(batch)
    parts, failed = run_user_fold(name, batch, fold, gather_rows, retry_budget=retry_budget)
    folded = Folded(
        changes=newest_changes(change for part in parts for change in part),
        dead_letters=[*fold_latest(others.arrived).dead_letters, *failed],
    )
    return GatheredBatch(folded, others.positions)


def _unreadable(folded: Folded, arrived: Sequence[BatchMessage]) -> set[Aggregate]:
    """The aggregates whose newest message could not be read."""
    if not folded.dead_letters:
        return set()
    failed = {dead[:3] for dead in folded.dead_letters}
    return {
        Aggregate(each.aggregate_type, each.aggregate_id)
        for each in arrived
        if each[:3] in failed and each.aggregate_type is not None and each.aggregate_id is not None
    }
