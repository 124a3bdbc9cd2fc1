"""The events of one topic partition, run to their ends.

When `run` returns, each event is done, was done before, is a dead letter, or is parked with its text in the
database: only then may the position on the topic move. This waits for retries and for other workers' leases,
while other aggregates go on.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from driftq.errors import InvalidArgument
from driftq.pipeline.worker.aggregate_queues import AggregateQueue, AggregateQueues, TopicEvent
from driftq.pipeline.worker.appending import DerivedAppends
from driftq.pipeline.worker.effect import Effects, Verdict
from driftq.pipeline.worker.heartbeats import ClaimHeartbeats
from driftq.pipeline.worker.store import WorkerStore
from driftq.pipeline.worker.timing import OutageWait, Timing
from driftq.registry import Claim, ClaimOutcome, ClaimState, Effect, GapPolicy, Handler, Wait

logger = logging.getLogger("driftq.pipeline.worker")

CLAIMS_MAX = 64
_POLL_MS_MIN = 50
_POLL_MS_MAX = 1_000


class PartitionRun:
    """Runs events for one handler; one after the other, and one aggregate's in their order."""

    def __init__(
        self,
        handler: Handler,
        store: WorkerStore,
        *,
        effects: Effects,
        appends: DerivedAppends,
        heartbeats: ClaimHeartbeats,
        outage_wait: OutageWait,
        timing: Timing,
    ) -> None:
        self._handler = handler
        self._store = store
        self._effects = effects
        self._appends = appends
        self._heartbeats = heartbeats
        self._outage_wait = outage_wait
        self._timing = timing
        # A claim looks the same before and after its effect began: hold unknown effects one at a time.
        self._most = 1 if handler.effect is Effect.UNKNOWN else CLAIMS_MAX
        self.counts: Counter[str] = Counter()

    def run(self, events: Iterable[TopicEvent]) -> None:
        """Run until all of them are settled or parked."""
        self._appends.flush()  # Derived events that an earlier run has not sent.
        queues = AggregateQueues(events)
        while queues:
            batch = queues.take(now=self._timing.now(), most=self._most)
            if not batch:
                self._timing.wait(queues.next_due - self._timing.now())
            for queue, claim in self._claimed(batch):
                wait_ms = self._settle(queue, claim, in_batch=len(batch) > 1)
                queues.put(queue, due=self._timing.now() + wait_ms if wait_ms else 0)

    def run_parked(self, source: tuple[str, int] | None = None) -> None:
        """Run parked events, from this worker or an earlier one, for as long as some are ready."""
        self._appends.flush()
        seen: set[tuple[str, int, int]] = set()
        while ready := self._outage_wait.ask(
            lambda: self._store.parking.ready(self._handler.name, source=source)
        ):
            fresh = [event for event in ready if (event.topic, event.partition, event.offset) not in seen]
            if not fresh:
                return
            seen |= {(event.topic, event.partition, event.offset) for event in fresh}
            self.run([TopicEvent.of(event, from_parking=True) for event in fresh])

    def _claimed(self, batch: Sequence[AggregateQueue]) -> Iterator[tuple[AggregateQueue, Claim]]:
        """The batch with its claims, all of them renewed from now on."""
        claimed_at = self._timing.now()
        claims = self._claims(batch)
        self._heartbeats.hold([claim for claim in claims if claim.granted], claimed_at=claimed_at)
        for queue, claim in zip(batch, claims, strict=True):
            try:
                yield queue, claim
            finally:
                self._heartbeats.drop(claim)

    def _claims(self, batch: Sequence[AggregateQueue]) -> list[Claim]:
        keys = [queue.head.key for queue in batch]
        try:
            return self._outage_wait.ask(lambda: self._store.claims.claim_all(self._handler, keys))
        except InvalidArgument as wrong:
            if len(batch) > 1:
                return [claim for queue in batch for claim in self._claims([queue])]
            arrived = batch[0].waiting.popleft()
            batch[0].waiting.appendleft(
                TopicEvent.unfit(arrived.message, str(wrong), from_parking=arrived.from_parking)
            )
            return self._claims(batch)

    def _settle(self, queue: AggregateQueue, claim: Claim, *, in_batch: bool) -> int:
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
                if in_batch and claim.attempt > 1:
                    queue.alone = (
                        True  # It may have killed the previous worker: no other event should be affected.
                    )
                    self._outage_wait.ask(lambda: self._store.claims.release(claim))
                    return 0
                return self._perform(queue, claim)

    def _perform(self, queue: AggregateQueue, claim: Claim) -> int:
        ending = self._effects.perform(claim, queue.head)
        match ending.verdict:
            case Verdict.DONE:
                self._leave(queue, "done")
            case Verdict.SUPERSEDED:
                self._leave(queue, "stale")
            case Verdict.DEAD:
                self.counts["dead"] += 1
                queue.done()
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

    def _duplicate(self, queue: AggregateQueue, claim: Claim) -> None:
        if claim.state is ClaimState.DEAD:
            self._effects.park(
                claim, queue.head
            )  # The worker that dead-lettered it may have died before it stored the text.
            self.counts["dead"] += 1
            queue.done()
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

    def _leave(self, queue: AggregateQueue, how: str) -> None:
        """The head is settled."""
        arrived = queue.done()
        self.counts[how] += 1
        if arrived.from_parking:
            self._outage_wait.ask(
                lambda: self._store.parking.unpark(self._handler.name, arrived.key.event_id)
            )

    def _park(self, queue: AggregateQueue) -> None:
        """The head cannot go on now, nor can the events after it."""
        ordered = self._handler.gap_policy is GapPolicy.ORDERED
        left = queue.clear() if ordered else [queue.done()]
        kept = [(event.key, event.message) for event in left if not event.from_parking]
        self._outage_wait.ask(lambda: self._store.parking.park(self._handler.name, kept))
        self.counts["parked"] += len(kept)

    def _report_unknown(self, claim: Claim) -> None:
        self.counts["unknown"] += 1
        name, event_id = claim.handler.name, claim.event.event_id
        logger.error(
            "the effect of event %s is unknown: check it, then run driftq registry resolve %s %s --as …",
            event_id,
            name,
            event_id,
        )
