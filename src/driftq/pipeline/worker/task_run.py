"""The events of one task, run to their ends.

When `run` returns, each event is done, was done before, is a dead letter, or is parked with its text in the
database: only then may the position on the topic move. This waits for retries and for other workers' leases,
while other aggregates go on.

An ordered handler's parked events are run by whoever moves their aggregate on. A run takes those of the
aggregates that it has events of before it claims, so that it parks nothing that can be done now. When it has
moved an aggregate, or parked an event of it, it looks again: of two workers one parks before it looks and the
other moves before it looks, so at least one of them finds the event.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import islice

from sqlalchemy.exc import SQLAlchemyError

from driftq.errors import DriftQError, InvalidArgument
from driftq.model import Aggregate
from driftq.pipeline.worker.appending import DerivedAppends
from driftq.pipeline.worker.effect import Effects, Verdict
from driftq.pipeline.worker.heartbeats import ClaimHeartbeats
from driftq.pipeline.worker.marks import GatheredMarks
from driftq.pipeline.worker.queues import AggregateQueue, AggregateQueues, TopicEvent, directly_after
from driftq.pipeline.worker.store import WorkerStore
from driftq.pipeline.worker.timing import OutageWait, Timing
from driftq.registry import Claim, ClaimOutcome, ClaimState, Effect, EventKey, GapPolicy, Handler, Wait
from driftq.registry.dead_letters import UNFIT
from driftq.registry.parking import ParkedEvent, ReadyEvent, WaitingEvent

logger = logging.getLogger("driftq.pipeline.worker")

CLAIMS_FIRST = 64
"""In the first batch of claims. A crash costs each of them an attempt, so only quick handlers get more."""
QUICK_MS = 500
SLOW_MS = 2_000
PARKED_EACH = 32
"""How many parked events of an aggregate are in memory at a time."""
AGGREGATES_MAX = 500
"""How many aggregates are looked up at once."""
_POLL_MS_MIN = 50
_POLL_MS_MAX = 1_000


class TaskRun:
    """Runs events for one handler; one after the other, and one aggregate's in their order."""

    def __init__(
        self,
        handler: Handler,
        store: WorkerStore,
        *,
        effects: Effects,
        marks: GatheredMarks,
        appends: DerivedAppends,
        heartbeats: ClaimHeartbeats,
        outage_wait: OutageWait,
        timing: Timing,
    ) -> None:
        self._handler = handler
        self._store = store
        self._effects = effects
        self._marks = marks
        self._appends = appends
        self._heartbeats = heartbeats
        self._outage_wait = outage_wait
        self._timing = timing
        self._ordered = handler.gap_policy is GapPolicy.ORDERED
        # A claim looks the same before and after its effect began: hold unknown effects one at a time.
        self._most = 1 if handler.effect is Effect.UNKNOWN else CLAIMS_FIRST
        self._to_park: list[tuple[EventKey, ParkedEvent]] = []
        self._to_unpark: list[str] = []
        self._changed: set[Aggregate] = set()
        """Aggregates that have moved, or of which an event was parked, since they were looked up."""
        self.counts: Counter[str] = Counter()

    def run(self, events: Iterable[TopicEvent]) -> None:
        """Run until all of them, and all parked events that they let go on, are settled or parked."""
        self._appends.flush()  # Derived events that an earlier run has not sent.
        tried: set[tuple[str, int, int]] = set()
        while True:
            self._run(AggregateQueues(events))
            if not self._changed:
                return
            events = self._parked_after_changes(tried)

    def run_ready(self) -> None:
        """Run every parked event that is ready, after a start: whoever made it ready may have ended."""
        for page in self._store.parking.ready(self._handler.name):
            self._run_listed(page)

    def run_returned(self) -> None:
        """Run parked events that were resolved, requeued or abandoned, as long as there are any."""
        parking, name = self._store.parking, self._handler.name
        tried: set[str] = set()
        while True:
            woken = self._outage_wait.ask(lambda: parking.woken(name))
            listed = woken + self._outage_wait.ask(lambda: parking.returned(name))
            fresh = {event.event_id: event for event in listed if event.event_id not in tried}
            if not fresh:
                return
            tried |= fresh.keys()
            self._run_listed(list(fresh.values()))
            if woken:
                self._outage_wait.ask(partial(parking.rest, name, woken))

    def _run_listed(self, ready: Sequence[ReadyEvent]) -> None:
        self.run([TopicEvent.of(event.message, from_parking=True) for event in ready])

    def _run(self, queues: AggregateQueues) -> None:
        while queues:
            began = self._timing.now()
            batch = queues.take(now=began, most=self._most)
            if not batch:
                self._timing.wait(queues.next_due - began)
                continue
            self._run_batch(batch)
            for queue in batch:
                queues.put(queue)
            self._size_batches(len(batch), self._timing.now() - began)

    def _run_batch(self, batch: Sequence[AggregateQueue]) -> None:
        """Claim the heads of these queues, run their handlers, and store what became of them."""
        if self._ordered:
            self._join_parked([queue for queue in batch if not queue.joined])
        claimed_at = self._timing.now()
        claims = self._claims(batch)
        granted = [claim for claim in claims if claim.granted]
        self._heartbeats.hold(granted, claimed_at=claimed_at)
        left = deque(zip(batch, claims, strict=True))
        try:
            if len(batch) > 1:
                left = deque(self._set_interrupted_aside(left))
            while left:
                self._timing.raise_if_stopped()
                queue, claim = left.popleft()
                wait_ms = self._settle(queue, claim)
                queue.due = self._timing.now() + wait_ms if wait_ms else 0
            self._marks.flush()
        except BaseException:
            self._stop_orderly([claim for _, claim in left if claim.granted])
            raise
        finally:
            self._heartbeats.drop(granted)
        self._settle_marks()
        self._store_parked()

    def _join_parked(self, queues: Sequence[AggregateQueue]) -> None:
        """Add the parked events that come next in these aggregates."""
        by_aggregate = {queue.aggregate: queue for queue in queues}
        found = self._parked_of(list(by_aggregate))
        for aggregate, queue in by_aggregate.items():
            queue.join(found.get(aggregate, ()))

    def _parked_of(self, aggregates: Sequence[Aggregate]) -> dict[Aggregate, list[WaitingEvent]]:
        by_aggregate: dict[Aggregate, list[WaitingEvent]] = {}
        if aggregates:
            name, waiting = self._handler.name, self._store.parking.waiting
            for event in self._outage_wait.ask(lambda: waiting(name, aggregates, most_each=PARKED_EACH)):
                by_aggregate.setdefault(event.aggregate, []).append(event)
        return by_aggregate

    def _parked_after_changes(self, tried: set[tuple[str, int, int]]) -> list[TopicEvent]:
        """The parked events that come next in aggregates that have changed; each once in a run."""
        some = list(islice(self._changed, AGGREGATES_MAX))
        self._changed.difference_update(some)
        events: list[TopicEvent] = []
        for parked in self._parked_of(some).values():
            for event in directly_after(parked):
                place = event.message.topic, event.message.partition, event.message.offset
                if place not in tried:
                    tried.add(place)
                    events.append(event)
        return events

    def _claims(self, batch: Sequence[AggregateQueue]) -> list[Claim]:
        keys = [queue.head.key for queue in batch]
        try:
            return self._outage_wait.ask(lambda: self._store.claims.claim_all(self._handler, keys))
        except InvalidArgument as wrong:
            if len(batch) > 1:
                return [claim for queue in batch for claim in self._claims([queue])]
            head = batch[0].head
            batch[0].replace_head(TopicEvent.unfit(head.message, str(wrong), from_parking=head.from_parking))
            return self._claims(batch)

    def _set_interrupted_aside(
        self, pairs: Iterable[tuple[AggregateQueue, Claim]]
    ) -> list[tuple[AggregateQueue, Claim]]:
        """Give back what was interrupted before: it may have ended its worker, and is claimed alone."""
        left, interrupted = [], []
        for queue, claim in pairs:
            queue.alone = claim.granted and claim.attempt > 1
            if queue.alone:
                queue.due = 0
                interrupted.append(claim)
            else:
                left.append((queue, claim))
        if interrupted:
            self._outage_wait.ask(lambda: self._store.claims.release_all(interrupted))
        return left

    def _settle(self, queue: AggregateQueue, claim: Claim) -> int:
        """Act on the claim's outcome; returns how many milliseconds the queue has to wait then."""
        match claim.outcome:
            case ClaimOutcome.DUPLICATE_DONE:
                self._duplicate(queue, claim)
                return 0
            case ClaimOutcome.STALE:
                self._leave(queue, "stale")
                return 0
            case ClaimOutcome.IN_PROGRESS:
                return self._wait(queue, claim)
            case ClaimOutcome.CLAIMED:
                return self._perform(queue, claim)

    def _perform(self, queue: AggregateQueue, claim: Claim) -> int:
        ending = self._effects.perform(claim, queue)
        match ending.verdict:
            case Verdict.GATHERED:
                pass  # See `_settle_marks`.
            case Verdict.DONE:
                self._leave(queue, "done", unparked=True)
            case Verdict.SUPERSEDED:
                self._leave(queue, "stale")
            case Verdict.DEAD:
                self._dead(queue)
            case Verdict.UNKNOWN:
                self._report_unknown(claim)
                self._park(queue)
            case Verdict.AGAIN:
                self.counts["failed"] += 1
                return max(1, ending.wait_ms)
            case Verdict.LOST:
                self.counts["lost"] += 1
                return _POLL_MS_MIN
        return 0

    def _settle_marks(self) -> None:
        for queue, lost in self._marks.take_outcomes():
            if lost:
                self.counts["lost"] += 1
                queue.due = self._timing.now() + _POLL_MS_MIN
            else:
                self._leave(queue, "done", unparked=True)

    def _duplicate(self, queue: AggregateQueue, claim: Claim) -> None:
        if claim.state is ClaimState.DEAD:
            # The worker that dead-lettered it may have died before it stored the text.
            self._effects.park_dead(claim, queue.head)
            self._dead(queue)
        else:
            self._leave(queue, "duplicate")

    def _wait(self, queue: AggregateQueue, claim: Claim) -> int:
        match claim.wait:
            case Wait.BACKOFF:
                return max(1, claim.wait_ms)
            case Wait.PREDECESSOR:
                self._park(queue)
                return 0
            case Wait.UNRESOLVED:
                self._report_unknown(claim)
                self._park(queue)
                return 0
            case _:
                freed = self._outage_wait.ask(self._store.abandon_ended_owners)
                return 1 if freed else min(max(claim.wait_ms, _POLL_MS_MIN), _POLL_MS_MAX)

    def _leave(self, queue: AggregateQueue, how: str, *, unparked: bool = False) -> None:
        """The head is settled; `unparked` when its text was removed together with its mark."""
        event = queue.done()
        self.counts[how] += 1
        self._note_change(queue)
        if queue.maybe_parked and not unparked:
            self._to_unpark.append(event.key.event_id)

    def _dead(self, queue: AggregateQueue) -> None:
        """The head is a dead letter, and its text stays parked."""
        queue.done()
        self.counts["dead"] += 1
        self._note_change(queue)

    def _park(self, queue: AggregateQueue) -> None:
        """The head cannot go on now, nor can the events after it."""
        left = queue.clear() if self._ordered else [queue.done()]
        fresh = [(event.key, event.message) for event in left if not event.from_parking]
        self._to_park += fresh
        self.counts["parked"] += len(fresh)
        if fresh:
            self._note_change(queue)

    def _note_change(self, queue: AggregateQueue) -> None:
        if self._ordered and queue.aggregate.type != UNFIT:
            self._changed.add(queue.aggregate)

    def _store_parked(self) -> None:
        """What this batch has parked, and what of it needs to be parked no longer."""
        parking, name = self._store.parking, self._handler.name
        if self._to_park:
            self._outage_wait.ask(lambda: parking.park(name, self._to_park))
            self._to_park = []
        if self._to_unpark:
            self._outage_wait.ask(lambda: parking.unpark(name, self._to_unpark))
            self._to_unpark = []

    def _size_batches(self, claims: int, took_ms: int) -> None:
        """Claim more at once while effects that may be repeated are quick, and fewer when they are not."""
        if self._handler.effect is not Effect.IDEMPOTENT:
            return
        if claims == self._most and took_ms <= QUICK_MS:
            self._most = max(self._most, min(2 * self._most, self._store.claims.batch_max))
        elif took_ms >= SLOW_MS:
            self._most = max(CLAIMS_FIRST, self._most // 2)

    def _stop_orderly(self, unbegun: Sequence[Claim]) -> None:
        """The run ends here: mark what has happened, and give back what was not begun."""
        try:
            self._marks.flush_at_stop()
            self._store.claims.release_all(unbegun)
        except (DriftQError, SQLAlchemyError) as problem:
            logger.warning("stopped without marking everything, which is then repeated: %s", problem)

    def _report_unknown(self, claim: Claim) -> None:
        self.counts["unknown"] += 1
        name, event_id = claim.handler.name, claim.event.event_id
        logger.error(
            "the effect of event %s is unknown: check it, then run driftq registry resolve %s %s --as …",
            event_id,
            name,
            event_id,
        )
