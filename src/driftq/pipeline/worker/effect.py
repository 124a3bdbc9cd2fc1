"""One claim from its grant to its end: the handler, its effect, and the mark in the registry.

    transactional   handler and mark in one transaction
    others          handler, then the mark; a crash in between repeats an idempotent effect and leaves an
                    unknown one to be resolved. Marks of idempotent effects may be gathered

An exception means that the effect did not happen. A request that the database or the server fails to answer
is repeated, and costs no attempt.
"""

from __future__ import annotations

import enum
import logging
from dataclasses import dataclass

from sqlalchemy.exc import SQLAlchemyError

from driftq.effects.sinks import HandlerSinks
from driftq.errors import EventSuperseded, InvalidArgument, LeaseLost, WrongClaimState
from driftq.pipeline.worker.appending import DerivedAppends
from driftq.pipeline.worker.context import WorkerContext
from driftq.pipeline.worker.derived import derived_texts
from driftq.pipeline.worker.heartbeats import ClaimHeartbeats, HeldLease
from driftq.pipeline.worker.marks import GatheredMarks, report_lost
from driftq.pipeline.worker.queues import AggregateQueue, TopicEvent
from driftq.pipeline.worker.spec import HandlerCall
from driftq.pipeline.worker.store import EffectMark, WorkerStore
from driftq.pipeline.worker.timing import OutageWait, RunStopped, Timing
from driftq.registry import Claim, ClaimState, Effect
from driftq.registry.verdict import Reject, Retry, UnknownEffect, error_text

logger = logging.getLogger("driftq.pipeline.worker")


class Verdict(enum.Enum):
    DONE = enum.auto()
    GATHERED = enum.auto()
    """Its effect has happened, and its mark waits with others."""
    SUPERSEDED = enum.auto()
    AGAIN = enum.auto()
    DEAD = enum.auto()
    UNKNOWN = enum.auto()
    LOST = enum.auto()


@dataclass(frozen=True, slots=True)
class Ending:
    verdict: Verdict
    wait_ms: int = 0


class _HandlerFailed(Exception):
    """Carries a handler's exception out of the transaction, so that no layer takes it for its own."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class Effects:
    """Performs the effects of one handler."""

    def __init__(
        self,
        call: HandlerCall,
        store: WorkerStore,
        *,
        marks: GatheredMarks,
        heartbeats: ClaimHeartbeats,
        outage_wait: OutageWait,
        appends: DerivedAppends,
        timing: Timing,
        sinks: HandlerSinks,
    ) -> None:
        self._call = call
        self._store = store
        self._marks = marks
        self._heartbeats = heartbeats
        self._outage_wait = outage_wait
        self._appends = appends
        self._timing = timing
        self._sinks = sinks

    def perform(self, claim: Claim, queue: AggregateQueue) -> Ending:
        """For the head of the queue. The claim is held, and it is over afterwards unless GATHERED."""
        arrived = queue.head
        message = arrived.message
        context = WorkerContext(
            claim,
            topic=message.topic,
            partition=message.partition,
            offset=message.offset,
            heartbeat=self._store.claims.heartbeat,
            sinks=self._sinks,
            wait=self._timing.wait,
        )
        began = self._timing.now()
        self._marks.flush_if_old(began)
        try:
            if not self._is_current(claim, context):
                return Ending(Verdict.LOST)
            if claim.handler.effect is Effect.TRANSACTIONAL:
                derived = self._outage_wait.ask(lambda: self._in_transaction(claim, queue, context))
            else:
                derived = self._handled(claim, arrived, context)
                # A crash from here to the mark repeats the effect, or leaves it unknown.
                mark = EffectMark(claim, derived, maybe_parked=queue.maybe_parked)
                if self._marks.may_wait(claim):
                    self._marks.add(mark, queue, took_ms=self._timing.now() - began)
                    return Ending(Verdict.GATHERED)
                if self._outage_wait.ask(lambda: self._store.finish_all([mark])):
                    report_lost(claim)
                    return Ending(Verdict.LOST)
        except RunStopped:  # While a sink was away: what is idempotent may begin once more, uncharged.
            if claim.handler.effect is Effect.IDEMPOTENT:
                self._store.claims.release_all([claim])
            raise
        except EventSuperseded:
            return Ending(Verdict.SUPERSEDED)
        except LeaseLost as lost:
            logger.warning("cannot finish the claim: %s", lost)
            return Ending(Verdict.LOST)
        except _HandlerFailed as failed:
            return self._failed(claim, arrived, failed.error)
        except SQLAlchemyError as wrong:  # The handler's own statement, in our transaction.
            return self._failed(claim, arrived, wrong)
        if derived:
            self._appends.flush()
        return Ending(Verdict.DONE)

    def _is_current(self, claim: Claim, context: WorkerContext) -> bool:
        """Nothing starts under a lease that may have expired: it is renewed first, however long it takes."""
        lease = self._heartbeats.begin(claim, context)
        if lease is HeldLease.LAPSED:
            self._outage_wait.ask(lambda: self._store.claims.heartbeat(claim))
        return lease is not HeldLease.LOST

    def _in_transaction(self, claim: Claim, queue: AggregateQueue, context: WorkerContext) -> list[str]:
        """May be called again: uncommitted work is repeated, committed work is not."""
        derived: list[str] = []
        try:
            with self._store.registry.apply(claim) as transaction:
                context.transaction = transaction
                derived = self._handled(claim, queue.head, context)
                mark = EffectMark(claim, derived, maybe_parked=queue.maybe_parked)
                self._store.write_beside(transaction, [mark])
        except WrongClaimState as before:
            if before.state != ClaimState.DONE:
                raise
        finally:
            context.transaction = None
        return derived

    def _handled(self, claim: Claim, arrived: TopicEvent, context: WorkerContext) -> list[str]:
        """Run the handler; returns its derived events, as texts."""
        if arrived.event is None:
            raise _HandlerFailed(Reject(arrived.problem))
        try:
            made = self._call(arrived.event, context)
        except SQLAlchemyError as error:
            if context.transaction is not None:
                raise  # The transaction finds out whether the database is unavailable.
            raise _HandlerFailed(error) from error
        except LeaseLost:
            raise
        except Exception as error:  # The worker loop: any exception of a handler fails its event.
            raise _HandlerFailed(error) from error
        try:
            return derived_texts(claim.handler.name, claim.event.event_id, made)
        except InvalidArgument as wrong:
            raise _HandlerFailed(Reject(str(wrong))) from wrong

    def _failed(self, claim: Claim, arrived: TopicEvent, error: Exception) -> Ending:
        self._marks.flush()  # What has happened is marked before anything is known to have failed.
        try:
            if isinstance(error, UnknownEffect):
                self._unknown(claim, arrived, error)
                return Ending(Verdict.UNKNOWN)
            retryable = not isinstance(error, Reject)
            if not retryable or claim.attempt >= claim.handler.max_attempts:
                # Its text first: a dead letter whose text is lost could not be requeued.
                self.park(claim, arrived)
            failure = self._outage_wait.ask(
                lambda: self._store.claims.mark_failed(claim, error=error_text(error), retryable=retryable)
            )
        except LeaseLost as lost:
            logger.warning("cannot finish the claim: %s", lost)
            return Ending(Verdict.LOST)
        what = f"event {claim.event.event_id} of {claim.handler.name}, attempt {claim.attempt}"
        if failure.state is ClaimState.DEAD:
            logger.error("%s: given up: %s", what, error_text(error))
            return Ending(Verdict.DEAD)
        logger.warning("%s: failed: %s", what, error_text(error))
        asked_ms = error.after_ms if isinstance(error, Retry) else None
        return Ending(Verdict.AGAIN, max(failure.retry_in_ms, asked_ms or 0))

    def _unknown(self, claim: Claim, arrived: TopicEvent, error: Exception) -> None:
        self.park(claim, arrived)
        registry = self._store.registry
        self._outage_wait.ask(lambda: registry.mark_unknown(claim, error=error_text(error)))

    def park(self, claim: Claim, arrived: TopicEvent) -> None:
        """Store the event's text in the database."""
        self._outage_wait.ask(
            lambda: self._store.parking.park(claim.handler.name, [(arrived.key, arrived.message)])
        )

    def park_dead(self, claim: Claim, arrived: TopicEvent) -> None:
        """The text of an event that is dead already, and then its dead letter."""
        self.park(claim, arrived)
        rows, handler = self._store.dead_letters, claim.handler.name
        self._outage_wait.ask(lambda: rows.record(handler, [claim.event.event_id]))
