"""One micro-batch of a projection: fold it, then apply it to every target.

A batch may be repeated after any kill, whole or cut differently: its result does not depend on that, and each
target stores its own position.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from driftq.errors import ProjectionError, Unavailable
from driftq.model import Aggregate
from driftq.pipeline.projection.batch import BatchMessages, read_aggregates, read_all, read_newest
from driftq.pipeline.projection.delivery import MakeDeadLetter, RetryBudget, deliver
from driftq.pipeline.projection.folds import (
    WRITE,
    BatchMessage,
    Folded,
    LatestState,
    Ordered,
    fold_latest,
    fold_ordered,
)
from driftq.pipeline.projection.user_fold import DataFrameFold, run_user_fold
from driftq.sinks import Application, Change, ProjectionDeadLetter, ReadModel, WriterEpoch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Fold = LatestState | Ordered | DataFrameFold


@dataclass(frozen=True, slots=True)
class Target:
    """A read model, and this run's right to write it."""

    model: ReadModel
    writer_epoch: WriterEpoch


class Projector:
    """The callback for each micro-batch."""

    def __init__(
        self, name: str, targets: Sequence[Target], *, fold: Fold, keyed: bool, retry_budget: RetryBudget
    ) -> None:
        self._name = name
        self._targets = targets
        self._fold = fold
        self._keyed = keyed
        self._retry_budget = retry_budget
        self.failure: ProjectionError | Unavailable | None = None
        """Why this run had to end, if it had to: Spark reports only text."""

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        try:
            self.apply(batch)
        except (ProjectionError, Unavailable) as ended:
            self.failure = ended
            raise

    def apply(self, batch: DataFrame) -> None:
        """Settle every message of the batch in every target."""
        with _collecting_nothing():
            match self._fold:
                case LatestState():
                    self._apply_latest(batch)
                case Ordered():
                    self._apply_ordered(batch, self._fold)
                case _:
                    self._apply_user_fold(batch, self._fold)

    def _apply_latest(self, batch: DataFrame) -> None:
        batch_messages = read_newest(batch, keyed=self._keyed)
        folded = fold_latest(batch_messages.arrived, keyed=self._keyed)
        if unreadable := _unreadable(folded, batch_messages.arrived):
            # The newest event of these is a dead letter: the one before it counts.
            others = [each for each in batch_messages.arrived if each[4:6] not in unreadable]
            found = read_aggregates(batch, sorted(unreadable), keyed=self._keyed)
            folded = fold_latest([*others, *found], keyed=self._keyed)

        def make_dead_letter(change: Change, why: str) -> ProjectionDeadLetter:
            own = read_aggregates(batch, [Aggregate(*change[:2])], keyed=self._keyed)
            return _dead_letter_maker(own)(change, why)

        for target in self._targets:
            self._deliver(target, folded, batch_messages, make_dead_letter)

    def _apply_ordered(self, batch: DataFrame, fold: Ordered) -> None:
        batch_messages = read_all(batch)
        aggregates = list(
            {
                Aggregate(each.aggregate_type, each.aggregate_id)
                for each in batch_messages.arrived
                if each.aggregate_type is not None and each.aggregate_id is not None
            }
        )
        for target in self._targets:
            model = target.model
            folded = fold_ordered(
                batch_messages.arrived,
                current=self._retry_budget.outlast(partial(model.current, aggregates)),
                waiting=self._retry_budget.outlast(partial(model.waiting, aggregates)),
                step=fold.step,
                retries=self._retry_budget.retries,
                pause=self._retry_budget.pause,
            )
            self._deliver(target, folded, batch_messages, _dead_letter_maker(batch_messages.arrived))

    def _apply_user_fold(self, batch: DataFrame, fold: DataFrameFold) -> None:
        batch.persist()  # The user's own function may read it several times.
        try:
            folded, batch_messages, make_dead_letter = run_user_fold(
                self._name, batch, fold, retry_budget=self._retry_budget
            )
            for target in self._targets:
                self._deliver(target, folded, batch_messages, make_dead_letter)
        finally:
            batch.unpersist()

    def _deliver(
        self, target: Target, folded: Folded, batch_messages: BatchMessages, make_dead_letter: MakeDeadLetter
    ) -> None:
        application = Application(
            changes=folded.changes,
            positions=batch_messages.positions,
            dead_letters=folded.dead_letters,
            waiting=folded.waiting,
        )
        deliver(
            target.model,
            application,
            target.writer_epoch,
            retry_budget=self._retry_budget,
            make_dead_letter=make_dead_letter,
        )


@contextmanager
def _collecting_nothing() -> Iterator[None]:
    """A batch is many tuples without cycles: a garbage collection takes longer than making them."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


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


def _dead_letter_maker(arrived: Sequence[BatchMessage]) -> MakeDeadLetter:
    """The dead letter of a row is that of the message it came from."""

    def make_dead_letter(change: Change, why: str) -> ProjectionDeadLetter:
        wanted = change[:3]
        return next(each for each in arrived if each[4:7] == wanted).fails(WRITE, why)

    return make_dead_letter
