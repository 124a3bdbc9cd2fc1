"""One micro-batch in the driver: tasks stage its rows, then one commit makes them count.

An outage, of the driver's connection or of a task's, and staging that a crash has emptied are waited out:
then the batch is staged again. Rows that the target refuses a few times are looked up in the batch. They
become dead letters in the commit that moves the position past them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as f

from driftq.errors import InvalidArgument, ProjectionError, Unavailable
from driftq.pipeline.dead_letters.projection import DeadLetterContext, ProjectionDeadLetters
from driftq.pipeline.projection.batch import is_event, read_ends, read_events
from driftq.pipeline.projection.delivery import RetryBudget
from driftq.pipeline.projection.folds import WRITE, BatchMessage, Ordered
from driftq.pipeline.projection.staged.latest_rows import message_columns
from driftq.pipeline.projection.staged.reports import SCHEMA, StagedPart, read_reports
from driftq.pipeline.projection.staged.tasks import FoldLatest, FoldOrdered, SetAside, WriteRows
from driftq.pipeline.projection.user_fold import DataFrameFold, run_user_fold
from driftq.pipeline.transport.port import VALUE_BYTES
from driftq.sinks import (
    ProjectionDeadLetter,
    RefusedChange,
    StagedBatch,
    StagedCommit,
    StagedReadModel,
    TaskWriter,
    WriterEpoch,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from driftq.pipeline.projection.projector import Identify
    from driftq.sinks.port import FindDeadLetters

logger = logging.getLogger("driftq.projection")
Stage = Callable[[TaskWriter, DeadLetterContext], StagedPart]
"""Runs the jobs whose tasks write the rows of a batch."""


def settle(
    model: StagedReadModel,
    writer_epoch: WriterEpoch,
    stage: Stage,
    *,
    find_dead_letters: FindDeadLetters,
    identify: Identify,
    dead_letters: ProjectionDeadLetters,
    retry_budget: RetryBudget,
) -> None:
    """Stage and commit, or raise an Unavailable, or ProjectionFenced or ReadModelSwapped."""

    given_up: list[ProjectionDeadLetter] = []

    def find(refused: Sequence[RefusedChange]) -> Iterable[ProjectionDeadLetter]:
        found = dead_letters.ready(model, list(find_dead_letters(refused)))
        given_up.extend(found)
        return found

    def publish(page: Sequence[ProjectionDeadLetter]) -> None:
        dead_letters.ready(model, page)

    def attempt() -> None:
        context = dead_letters.context
        staged = model.open_batch(writer_epoch)
        part = stage(staged.writer, context)
        positions = identify(part.positions)
        if context != dead_letters.context and part.has_dead_letters:
            return attempt()  # A topic has appeared, and tasks did not know its identity.
        commit = StagedCommit(
            reports=part.attempts,
            positions=positions,
            dead_letters=dead_letters.ready(model, part.dead_letters),
            publish_dead_letters=publish,
        )
        given_up.clear()
        refused = _commit(staged, commit, find, address=model.address, retry_budget=retry_budget)
        if refused or part.has_dead_letters:
            dead_letters.applied(part.dead_letter_count + len(given_up))
        return None

    retry_budget.outlast(attempt)


def _commit(
    staged: StagedBatch,
    commit: StagedCommit,
    find_dead_letters: FindDeadLetters,
    *,
    address: str,
    retry_budget: RetryBudget,
) -> bool:
    """A few tries, and then one that sets aside the rows that the target refuses: then True."""
    try:
        retry_budget.retry(lambda: staged.commit(commit))
    except (ProjectionError, Unavailable):
        raise
    except Exception as error:  # noqa: BLE001 - A target may raise anything, and the last try raises it.
        logger.warning("%s refused the batch, isolating the rows that it refuses: %s", address, error)
        staged.commit(replace(commit, find_dead_letters=find_dead_letters))
        return True
    return False


def run_tasks(rows: DataFrame, task: Any, *, address: str) -> StagedPart:
    """One job; raises ReadModelUnavailable where the target was away from a task."""
    reports = rows.mapInArrow(task, SCHEMA).toArrow()
    return read_reports(reports["report"].to_pylist(), address=address)


def stage_latest(
    batch: DataFrame, writer: TaskWriter, context: DeadLetterContext, *, keyed: bool, address: str
) -> StagedPart:
    """No shuffle: an aggregate may have a row of several tasks, and the commit takes the newest."""
    value = f.col(VALUE_BYTES if VALUE_BYTES in batch.columns else "value").alias("value")
    named = (value if name == "value" else f.col(name) for name in message_columns(keyed=keyed))
    needed = batch.select(*named)
    return run_tasks(needed, FoldLatest(writer, context, keyed), address=address)


def stage_ordered(
    batch: DataFrame,
    writer: TaskWriter,
    context: DeadLetterContext,
    *,
    fold: Ordered,
    retry_budget: RetryBudget,
    address: str,
) -> StagedPart:
    """All messages of an aggregate go to one task."""
    needed = batch.select(*message_columns(keyed=False))
    together = needed.repartition("aggregate_type", "aggregate_id")
    return run_tasks(together, FoldOrdered(writer, context, fold, retry_budget), address=address)


def stage_user_fold(
    name: str,
    batch: DataFrame,
    writer: TaskWriter,
    context: DeadLetterContext,
    *,
    fold: DataFrameFold,
    retry_budget: RetryBudget,
    address: str,
) -> StagedPart:
    """The rows of the fold, the messages that are no events, and how far the batch reaches."""
    others = batch.where(~is_event(keyed=False)).select(*message_columns(keyed=False))
    whole = run_tasks(others, SetAside(writer, context), address=address)

    def take(rows: DataFrame) -> StagedPart:
        return run_tasks(rows, WriteRows(writer), address=address)

    parts, failed = run_user_fold(name, batch, fold, take, retry_budget=retry_budget)
    for part in (*parts, StagedPart(positions=read_ends(batch), dead_letters=failed)):
        whole.add(part)
    return whole


def dead_letters_of(
    batch: DataFrame, refused: Sequence[RefusedChange], *, keyed: bool
) -> Iterable[ProjectionDeadLetter]:
    """The messages that rows came from; a row whose event came earlier has the end of the batch."""
    found = read_events(batch, (each.change[:3] for each in refused), keyed=keyed)
    for change, error in refused:
        message = found.get(change[:3]) or _at_the_end(batch, change.event_id, change.state)
        yield message.fails(WRITE, error)


def _at_the_end(batch: DataFrame, event_id: str, state: str | None) -> BatchMessage:
    (topic, partition, *_), offset = max(read_ends(batch).items())
    return BatchMessage(topic, partition, offset, event_id, None, None, None, state)


def require_picklable(name: str, fold: Ordered) -> None:
    """Raise InvalidArgument unless the step can be sent to Spark's tasks."""
    from pyspark import cloudpickle

    try:
        cloudpickle.dumps(fold.step)  # type: ignore[no-untyped-call]
    except Exception as error:
        raise InvalidArgument(
            "fold",
            f"the step of projection {name!r} runs in Spark's tasks and cannot be sent there "
            f"({type(error).__name__}: {error}): open connections, files and locks inside of it",
        ) from error
