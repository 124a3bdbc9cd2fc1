"""Marks of effects that have happened, gathered so that one transaction takes many.

Most of what a mark costs is its transaction. A crash repeats the effects that are not marked, so only effects
that may be repeated are gathered, and only for a moment:

    who     effects declared idempotent, at their first attempt: a later one may be what ended a worker
    until   there are 64, or the first is 50 ms old, or a handler took 50 ms, or the batch of claims ends;
            and always before a failure is recorded and before the run stops

The claims stay held, and their leases are renewed, until the mark. A claim that was lost in between concerns
its own event alone: the others are marked, and the derived events of these are stored with their marks.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NamedTuple

from driftq.pipeline.worker.appending import DerivedAppends
from driftq.pipeline.worker.heartbeats import ClaimHeartbeats
from driftq.pipeline.worker.queues import AggregateQueue
from driftq.pipeline.worker.store import EffectMark, WorkerStore
from driftq.pipeline.worker.timing import OutageWait, Timing
from driftq.registry import Claim, Effect

logger = logging.getLogger("driftq.pipeline.worker")

MARKS_MAX = 64
WINDOW_MS = 50


class GatheredMark(NamedTuple):
    """An effect that has happened, and the queue whose head it was for."""

    mark: EffectMark
    queue: AggregateQueue


class MarkOutcome(NamedTuple):
    queue: AggregateQueue
    lost: bool
    """The claim was lost before the mark: another worker has the event."""


class GatheredMarks:
    """The marks of one run. With `gathers=False` each is made at once."""

    def __init__(
        self,
        store: WorkerStore,
        *,
        heartbeats: ClaimHeartbeats,
        outage_wait: OutageWait,
        appends: DerivedAppends,
        timing: Timing,
        gathers: bool = True,
    ) -> None:
        self._store = store
        self._heartbeats = heartbeats
        self._outage_wait = outage_wait
        self._appends = appends
        self._timing = timing
        self._gathers = gathers
        self._gathered: list[GatheredMark] = []
        self._oldest_at = 0
        self._outcomes: list[MarkOutcome] = []

    def may_wait(self, claim: Claim) -> bool:
        """Whether the mark of this effect may be gathered with others."""
        return self._gathers and claim.attempt == 1 and claim.handler.effect is Effect.IDEMPOTENT

    def add(self, mark: EffectMark, queue: AggregateQueue, *, took_ms: int) -> None:
        """The effect has just happened, and its handler took so long."""
        now = self._timing.now()
        if not self._gathered:
            self._oldest_at = now
        self._gathered.append(GatheredMark(mark, queue))
        if len(self._gathered) >= MARKS_MAX or took_ms >= WINDOW_MS:
            self.flush()
        else:
            self.flush_if_old(now)

    def flush_if_old(self, now: int) -> None:
        """Before a handler starts, which may take long."""
        if self._gathered and now - self._oldest_at >= WINDOW_MS:
            self.flush()

    def flush(self) -> None:
        """Make the marks, in one transaction. While the database is unavailable, this waits."""
        if not self._gathered:
            return
        marks = [mark for mark, _ in self._gathered]
        lost = {id(claim) for claim in self._outage_wait.ask(lambda: self._store.finish_all(marks))}
        self._heartbeats.drop([mark.claim for mark in marks])
        gathered, self._gathered = self._gathered, []
        for mark, queue in gathered:
            is_lost = id(mark.claim) in lost
            if is_lost:
                report_lost(mark.claim)
            self._outcomes.append(MarkOutcome(queue, is_lost))
        if any(mark.derived for mark in marks):
            self._appends.flush()

    def flush_at_stop(self) -> None:
        """The same without waiting: what the database does not take now is repeated, as after a crash."""
        if self._gathered:
            self._store.finish_all([mark for mark, _ in self._gathered])
            self._gathered = []

    def take_outcomes(self) -> Sequence[MarkOutcome]:
        """What became of the marks that were made since the last call."""
        outcomes, self._outcomes = self._outcomes, []
        return outcomes


def report_lost(claim: Claim) -> None:
    """Its effect happened, and another worker has the event since."""
    logger.warning("cannot finish the claim: another worker has event %s", claim.event.event_id)
