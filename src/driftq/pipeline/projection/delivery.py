"""Applying a gathered batch to a read model: outages are waited out, refused rows become dead letters.

An Unavailable is waited out with growing pauses, and the position stays. A continuous query gives up after a
while, so that it can be stopped; its runner restarts it without limit. Any other error is retried a few
times; then the batch is split until the rows that cannot be stored are found. They become dead letters in the
transaction that moves the position past them.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from random import random
from typing import TypeVar

from driftq.errors import ProjectionError, Unavailable
from driftq.pipeline.dead_letters.projection import ProjectionDeadLetters
from driftq.registry import Backoff
from driftq.sinks import Application, Change, ReadModel, RefusedChange, WriterEpoch
from driftq.sinks.port import FindDeadLetters

logger = logging.getLogger("driftq.projection")
_Result = TypeVar("_Result")
_BACKOFF = Backoff(base_ms=200, cap_ms=5_000)


@dataclass(frozen=True, slots=True)
class RetryBudget:
    """How often an error is retried, and how long each pause is."""

    retries: int
    outage_s: float
    """How long an outage is waited out before the query itself restarts."""
    backoff: Backoff = _BACKOFF
    sleep: Callable[[float], None] = time.sleep
    counts: Counter[str] = field(default_factory=Counter)
    """Of the job that has this budget: `outages` that were waited for."""
    on_outage: Callable[[str | None], None] = lambda _: None
    """Gets the reason when a target is away, and None when it is back."""

    def pause(self, retry: int) -> None:
        # Only a pause: results do not depend on it.
        self.sleep(self.backoff.full_jitter_ms(retry, random()) / 1000)  # noqa: S311 - a pause is no secret

    def outlast(self, work: Callable[[], _Result]) -> _Result:
        """The result, even if the target is unavailable for a while; then raises the Unavailable."""
        end = time.monotonic() + self.outage_s
        retry = 0
        while True:
            try:
                done = work()
            except Unavailable as away:
                if time.monotonic() > end:
                    raise
                retry += 1
                if retry == 1:
                    self.counts["outages"] += 1
                    logger.warning("the target is unavailable, waiting: %s", away)
                    self.on_outage(str(away))
                self.pause(retry)
            else:
                if retry:
                    logger.info("the target is back")
                    self.on_outage(None)
                return done

    def retry(self, work: Callable[[], _Result]) -> _Result:
        """The result, after a few more tries where it fails; an outage is raised at once."""
        for retry in range(1, self.retries + 1):
            try:
                return work()
            except (ProjectionError, Unavailable):
                raise
            except Exception as error:  # noqa: BLE001 - A target or a user's function may raise anything; the last try raises it.
                logger.warning("try %d of %d failed: %s", retry, self.retries + 1, error)
                self.pause(retry)
        return work()

    def persist(self, work: Callable[[], _Result]) -> _Result:
        """The result, after a few more tries where it fails; an outage does not count as one."""
        return self.retry(lambda: self.outlast(work))


def deliver(
    model: ReadModel,
    application: Application,
    writer_epoch: WriterEpoch,
    *,
    retry_budget: RetryBudget,
    find_dead_letters: FindDeadLetters,
    dead_letters: ProjectionDeadLetters,
) -> None:
    """Apply it, or raise an Unavailable, or ProjectionFenced or ReadModelSwapped: then nothing may follow."""

    def apply(part: Application) -> None:
        if not part.dead_letters:
            model.apply(part, writer_epoch)
            return
        model.apply(replace(part, dead_letters=dead_letters.ready(model, part.dead_letters)), writer_epoch)
        dead_letters.applied(len(part.dead_letters))

    try:
        retry_budget.persist(lambda: apply(application))
    except (ProjectionError, Unavailable):
        raise
    except Exception as error:  # The target's error is stored with the row.
        if not application.changes:
            raise
        logger.warning("%s refused the batch, isolating the rows that it refuses: %s", model.address, error)
        refused = _refused(model, application.changes, writer_epoch, retry_budget=retry_budget)
        given_up = find_dead_letters(refused)
        rest = replace(application, changes=(), dead_letters=[*application.dead_letters, *given_up])
        retry_budget.outlast(lambda: apply(rest))


def _refused(
    model: ReadModel, changes: Sequence[Change], writer_epoch: WriterEpoch, *, retry_budget: RetryBudget
) -> list[RefusedChange]:
    """Apply what can be applied, by halves. Positions stay, and rows may repeat: the newest wins anyway."""
    try:
        retry_budget.outlast(lambda: model.apply(Application(changes=changes), writer_epoch))
    except (ProjectionError, Unavailable):
        raise
    except Exception as error:  # noqa: BLE001 - The target's error is stored with the row.
        if len(changes) == 1:
            return [RefusedChange(changes[0], f"{type(error).__name__}: {error}")]
        half = len(changes) // 2
        halves = (changes[:half], changes[half:])
        return [
            found
            for part in halves
            for found in _refused(model, part, writer_epoch, retry_budget=retry_budget)
        ]
    return []
