"""The events of one topic partition, run to their ends.

When `run` returns, each event is done, was done before, is a dead letter, or is parked with its text in the
database: then, and not before, may the position on the topic move. Retries and other holders' leases are
waited for here, while other aggregates go on.
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
        ledger: WorkerStore,
        *,
        effects: Effects,
        appends: DerivedAppends,
        heartbeats: ClaimHeartbeats,
        patience: OutageWait,
        timing: Timing,
    ) -> None:
        self._handler = handler
        self._ledger = ledger
        self._effects = effects
        self._appends = appends
        self._heartbeats = heartbeats
        self._patience = patience
        self._timing = timing
        # A claim that was not begun cannot be told from one that was: of unknown effects hold one at a time.
        self._most = 1 if handler.effect is Effect.UNKNOWN else CLAIMS_MAX
        self.counts: Counter[str] = Counter()

    def run(self, events: Iterable[TopicEvent]) -> None:
        """Until all of them are settled or parked."""
        self._appends.flush()  # What a run before this one had no time for.
        lanes = AggregateQueues(events)
        while lanes:
            wave = lanes.take(now=self._timing.now(), most=self._most)
            if not wave:
                self._timing.wait(lanes.next_due - self._timing.now())
            for lane, claim in self._claimed(wave):
                wait_ms = self._settle(lane, claim, company=len(wave) > 1)
                lanes.put(lane, due=self._timing.now() + wait_ms if wait_ms else 0)

    def run_parked(self, place: tuple[str, int] | None = None) -> None:
        """Take up what was parked, here or by others before, for as long as some of it is ripe."""
        self._appends.flush()
        seen: set[tuple[str, int, int]] = set()
        while ripe := self._patience.ask(lambda: self._ledger.parking.ripe(self._handler.name, place=place)):
            fresh = [one for one in ripe if (one.topic, one.partition, one.offset) not in seen]
            if not fresh:
                return
            seen |= {(one.topic, one.partition, one.offset) for one in fresh}
            self.run([TopicEvent.of(one, from_parking=True) for one in fresh])

    def _claimed(self, wave: Sequence[AggregateQueue]) -> Iterator[tuple[AggregateQueue, Claim]]:
        """The wave with its claims, all of them held alive from now on."""
        asked_at = self._timing.now()
        claims = self._claims(wave)
        self._heartbeats.hold([claim for claim in claims if claim.granted], asked_at=asked_at)
        for lane, claim in zip(wave, claims, strict=True):
            try:
                yield lane, claim
            finally:
                self._heartbeats.drop(claim)

    def _claims(self, wave: Sequence[AggregateQueue]) -> list[Claim]:
        keys = [lane.head.key for lane in wave]
        try:
            return self._patience.ask(lambda: self._ledger.claims.claim_all(self._handler, keys))
        except InvalidArgument as wrong:
            if len(wave) > 1:
                return [claim for lane in wave for claim in self._claims([lane])]
            arrived = wave[0].waiting.popleft()
            wave[0].waiting.appendleft(
                TopicEvent.unfit(arrived.place, str(wrong), from_parking=arrived.from_parking)
            )
            return self._claims(wave)

    def _settle(self, lane: AggregateQueue, claim: Claim, *, company: bool) -> int:
        """Do what the claim allows; for how many milliseconds the lane has to wait then."""
        match claim.outcome:
            case ClaimOutcome.DUPLICATE_DONE:
                self._duplicate(lane, claim)
                return 0
            case ClaimOutcome.STALE:
                self._leave(lane, "stale")
                return 0
            case ClaimOutcome.IN_PROGRESS:
                return self._wait(lane, claim)
            case ClaimOutcome.CLAIMED:
                if company and claim.attempt > 1:
                    lane.alone = (
                        True  # It may be what killed the one before us: nobody else shall pay for it.
                    )
                    self._patience.ask(lambda: self._ledger.claims.release(claim))
                    return 0
                return self._perform(lane, claim)

    def _perform(self, lane: AggregateQueue, claim: Claim) -> int:
        ending = self._effects.perform(claim, lane.head)
        match ending.verdict:
            case Verdict.DONE:
                self._leave(lane, "done")
            case Verdict.SUPERSEDED:
                self._leave(lane, "stale")
            case Verdict.DEAD:
                self.counts["dead"] += 1
                lane.done()
            case Verdict.UNKNOWN:
                self._report_unknown(claim)
                self._park(lane)
            case Verdict.AGAIN:
                self.counts["failed"] += 1
                return max(1, ending.wait_ms)
            case Verdict.LOST:
                self.counts["lost"] += 1
                return _POLL_MS_MIN
        return 0

    def _duplicate(self, lane: AggregateQueue, claim: Claim) -> None:
        if claim.state is ClaimState.DEAD:
            self._effects.park(claim, lane.head)  # Whoever gave it up may have had no time for its text.
            self.counts["dead"] += 1
            lane.done()
        else:
            self._leave(lane, "duplicate")

    def _wait(self, lane: AggregateQueue, claim: Claim) -> int:
        match claim.wait:
            case Wait.BACKOFF:
                return max(1, claim.wait_ms)
            case Wait.EARLIER:
                self._park(lane)
                return 0
            case Wait.UNRESOLVED:
                self._report_unknown(claim)
                self._park(lane)
                return 0
            case _:
                freed = self._patience.ask(self._ledger.free_departed)
                return 1 if freed else min(max(claim.wait_ms, _POLL_MS_MIN), _POLL_MS_MAX)

    def _leave(self, lane: AggregateQueue, how: str) -> None:
        """The head is settled."""
        arrived = lane.done()
        self.counts[how] += 1
        if arrived.from_parking:
            self._patience.ask(lambda: self._ledger.parking.unpark(self._handler.name, arrived.key.event_id))

    def _park(self, lane: AggregateQueue) -> None:
        """The head cannot go on now, nor can what has to come after it."""
        ordered = self._handler.gap_policy is GapPolicy.ORDERED
        left = lane.clear() if ordered else [lane.done()]
        kept = [(one.key, one.place) for one in left if not one.from_parking]
        self._patience.ask(lambda: self._ledger.parking.park(self._handler.name, kept))
        self.counts["parked"] += len(kept)

    def _report_unknown(self, claim: Claim) -> None:
        self.counts["unknown"] += 1
        name, event_id = claim.handler.name, claim.event.event_id
        logger.error(
            "nobody can tell whether %s had its effect: look, then run driftq registry resolve %s %s --as …",
            event_id,
            name,
            event_id,
        )
