"""Bringing a batch into a read model: outages are waited out, a row that the target refuses is set aside.

What is away comes back: an Unavailable is waited out with growing pauses, and the position stays. A query
that goes on gives up after a while, so that it can be stopped; whoever runs it starts it again, for ever.
Any other refusal is tried again a few times; then the batch is taken apart until the rows that cannot be
stored are known. They become dead letters in the transaction that moves the position past them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import random
from typing import TypeVar

from driftq.errors import ProjectionError, Unavailable
from driftq.registry import Backoff
from driftq.sinks import Application, Change, ProjectionDeadLetter, ReadModel, WriterEpoch

logger = logging.getLogger("driftq.projection")
_Result = TypeVar("_Result")
_BACKOFF = Backoff(base_ms=200, cap_ms=5_000)
Bury = Callable[[Change, str], ProjectionDeadLetter]
"""The dead letter of a row that cannot be stored, with the error."""


@dataclass(frozen=True, slots=True)
class RetryBudget:
    """How often a refusal is tried again, and how long each pause is."""

    retries: int
    outage_s: float
    """How long an outage is waited out before the query itself has to start again."""
    backoff: Backoff = _BACKOFF
    sleep: Callable[[float], None] = time.sleep

    def pause(self, retry: int) -> None:
        # Only a pause: what is computed does not depend on it.
        self.sleep(self.backoff.full_jitter_ms(retry, random()) / 1000)

    def outlast(self, work: Callable[[], _Result]) -> _Result:
        """The result, even if the target is away for a while; then the Unavailable."""
        end = time.monotonic() + self.outage_s
        retry = 0
        while True:
            try:
                return work()
            except Unavailable as away:
                if time.monotonic() > end:
                    raise
                retry += 1
                if retry == 1:
                    logger.warning("waiting: %s", away)
                self.pause(retry)

    def persist(self, work: Callable[[], _Result]) -> _Result:
        """The result, after a few more tries where it fails; an outage does not count as one."""
        for retry in range(1, self.retries + 1):
            try:
                return self.outlast(work)
            except (ProjectionError, Unavailable):
                raise
            except Exception as error:  # noqa: BLE001 - A target or a user's function may raise anything; the last try tells.
                logger.warning("try %d of %d failed: %s", retry, self.retries + 1, error)
                self.pause(retry)
        return self.outlast(work)


def deliver(
    model: ReadModel, application: Application, tenure: WriterEpoch, *, patience: RetryBudget, bury: Bury
) -> None:
    """Apply it, or raise an Unavailable, or ProjectionFenced or ReadModelSwapped: then nothing may follow."""
    try:
        patience.persist(lambda: model.apply(application, tenure))
    except (ProjectionError, Unavailable):
        raise
    except Exception as error:  # Whatever the target says of a row is kept with it.
        if not application.changes:
            raise
        logger.warning("looking for the rows that %s refuses: %s", model.address, error)
        refused = _refused(model, application.changes, tenure, patience=patience)
        buried = [bury(change, why) for change, why in refused]
        rest = replace(application, changes=(), dead_letters=[*application.dead_letters, *buried])
        patience.outlast(lambda: model.apply(rest, tenure))


def _refused(
    model: ReadModel, changes: Sequence[Change], tenure: WriterEpoch, *, patience: RetryBudget
) -> list[tuple[Change, str]]:
    """Apply all that can be, by halves. Positions stay, and rows may come again: the newest wins anyway."""
    try:
        patience.outlast(lambda: model.apply(Application(changes=changes), tenure))
    except (ProjectionError, Unavailable):
        raise
    except Exception as error:  # noqa: BLE001 - Whatever the target says of a row is kept with it.
        if len(changes) == 1:
            return [(changes[0], f"{type(error).__name__}: {error}")]
        half = len(changes) // 2
        halves = (changes[:half], changes[half:])
        return [found for part in halves for found in _refused(model, part, tenure, patience=patience)]
    return []
