"""One micro-batch of a projection: fold it, then apply it to every target.

Where tasks can write a target, they fold and stage its rows, and the driver commits what they report. For
other targets the driver gathers the rows and folds them, which bounds a batch by its memory:
`Projection.batch_messages_max` limits the messages of one.

A batch may be repeated after any kill, whole or cut differently: its result does not depend on that, and each
target stores its own position.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING

from driftq.errors import ProjectionError, Unavailable
from driftq.model import Aggregate
from driftq.pipeline.dead_letters.projection import ProjectionDeadLetters
from driftq.pipeline.projection.batch import read_aggregates, read_all, read_newest, read_non_events
from driftq.pipeline.projection.delivery import RetryBudget, deliver
from driftq.pipeline.projection.folds import (
    BatchMessage,
    Folded,
    LatestState,
    Ordered,
    fold_latest,
    fold_ordered,
    newest_changes,
)
from driftq.pipeline.projection.staged.batch import (
    Stage,
    dead_letters_of,
    require_picklable,
    settle,
    stage_latest,
    stage_ordered,
    stage_user_fold,
)
from driftq.pipeline.projection.traces import report_applied
from driftq.pipeline.projection.user_fold import (
    DataFrameFold,
    dead_letters_of_rows,
    gather_rows,
    run_user_fold,
)
from driftq.pipeline.spark.garbage import collecting_nothing
from driftq.pipeline.transport.port import COLUMNS
from driftq.sinks import (
    Application,
    ReadModel,
    StagedReadModel,
    TopicPartition,
    WriterEpoch,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from driftq.sinks.port import FindDeadLetters

Fold = LatestState | Ordered | DataFrameFold
Positions = Mapping[TopicPartition, int]
Identify = Callable[[Positions], Positions]
"""Adds the identities of the topics to the positions of a batch."""


@dataclass(frozen=True, slots=True)
class Target:
    """A read model, and this run's right to write it."""

    model: ReadModel
    writer_epoch: WriterEpoch


@dataclass(frozen=True, slots=True)
class GatheredBatch:
    """What a batch comes to, and the last offset of each of its partitions."""

    folded: Folded
    positions: Mapping[TopicPartition, int]


class Projector:
    """The callback for each micro-batch. Raises InvalidArgument for a step that tasks cannot run."""

    def __init__(
        self,
        name: str,
        targets: Sequence[Target],
        *,
        fold: Fold,
        keyed: bool,
        retry_budget: RetryBudget,
        identify: Identify,
        dead_letters: ProjectionDeadLetters,
    ) -> None:
        self._name = name
        self._targets = targets
        self._fold = fold
        self._keyed = keyed
        self._retry_budget = retry_budget
        self._identify = identify
        self._dead_letters = dead_letters
        self.failure: ProjectionError | Unavailable | None = None
        """Why this run had to end, if it had to: Spark reports only text."""
        if isinstance(fold, Ordered) and any(isinstance(each.model, StagedReadModel) for each in targets):
            require_picklable(name, fold)

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        began_ns = time.time_ns()
        try:
            self.apply(batch)
            report_applied(self._name, batch, began_ns=began_ns)
        except (ProjectionError, Unavailable) as ended:
            self.failure = ended
            raise

    def apply(self, batch: DataFrame) -> None:
        """Settle every message of the batch in every target."""
        with collecting_nothing():
            match self._fold:
                case LatestState():
                    self._apply_latest(batch)
                case Ordered():
                    self._apply_ordered(batch, self._fold)
                case _:
                    self._apply_user_fold(batch, self._fold)

    def _apply_latest(self, batch: DataFrame) -> None:
        gather = cache(partial(gather_latest, batch, keyed=self._keyed))
        find = partial(dead_letters_of, batch, keyed=self._keyed)
        for target in self._targets:
            stage = partial(stage_latest, batch, keyed=self._keyed, address=target.model.address)
            self._apply_to(target, stage, gather, find)

    def _apply_ordered(self, batch: DataFrame, fold: Ordered) -> None:
        find = partial(dead_letters_of, batch, keyed=False)
        budget = self._retry_budget
        for target in self._targets:
            address = target.model.address
            stage = partial(stage_ordered, batch, fold=fold, retry_budget=budget, address=address)
            gather = partial(gather_ordered, batch, target.model, fold=fold, retry_budget=budget)
            self._apply_to(target, stage, gather, find)

    def _apply_user_fold(self, batch: DataFrame, fold: DataFrameFold) -> None:
        batch = batch.select(*COLUMNS).persist()  # The user's own function may read it several times.
        name, budget = self._name, self._retry_budget
        gather = cache(partial(gather_user_fold, name, batch, fold=fold, retry_budget=budget))
        find = partial(dead_letters_of_rows, batch)
        try:
            for target in self._targets:
                address = target.model.address
                stage = partial(stage_user_fold, name, batch, fold=fold, retry_budget=budget, address=address)
                self._apply_to(target, stage, gather, find)
        finally:
            batch.unpersist()

    def _apply_to(
        self, target: Target, stage: Stage, gather: Callable[[], GatheredBatch], find: FindDeadLetters
    ) -> None:
        """By the tasks where they can write the target, else by the driver."""
        model = target.model
        if isinstance(model, StagedReadModel):
            settle(
                model,
                target.writer_epoch,
                stage,
                find_dead_letters=find,
                identify=self._identify,
                dead_letters=self._dead_letters,
                retry_budget=self._retry_budget,
            )
            return
        gathered = gather()
        application = Application(
            changes=gathered.folded.changes,
            positions=self._identify(gathered.positions),
            dead_letters=gathered.folded.dead_letters,
            waiting=gathered.folded.waiting,
        )
        deliver(
            model,
            application,
            target.writer_epoch,
            retry_budget=self._retry_budget,
            find_dead_letters=find,
            dead_letters=self._dead_letters,
        )


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
