"""Whatever two workers do in whatever order, each event is done once and no aggregate goes back."""

import itertools
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from driftq.errors import LeaseLost
from driftq.registry import Claim, ClaimOutcome, ClaimState, Effect, GapPolicy, Handler
from driftq.registry.sql_registry import SqlRegistry
from driftq.testing.clock import VirtualClock
from tests.conformance.registry.cast import LEASE_MS, event, reached

EVENTS = range(1, 6)
_runs = itertools.count()

WORKERS = st.integers(0, 1)
STEPS = st.one_of(
    st.tuples(st.just("claim"), WORKERS, st.sampled_from(EVENTS)),
    st.tuples(st.sampled_from(["done", "fail", "give_up", "release", "beat"]), WORKERS, st.integers(0, 3)),
    st.tuples(st.just("wait"), WORKERS, st.sampled_from([1, 500, LEASE_MS, 3 * LEASE_MS])),
    st.tuples(st.just("requeue"), WORKERS, st.sampled_from(EVENTS)),
)


class History:
    """Plays the steps and keeps account of what was granted and done."""

    def __init__(self, workers: list[SqlRegistry], clock: VirtualClock, handler: Handler) -> None:
        self.workers = workers
        self.clock = clock
        self.handler = handler
        self.held: list[list[Claim]] = [[], []]
        self.done: Counter[str] = Counter()
        self.tokens: dict[str, int] = {}

    def play(self, step: str, worker: int, number: int) -> None:
        registry, held = self.workers[worker], self.held[worker]
        if step == "wait":
            self.clock.advance(ms=number)
        elif step == "claim":
            self._claim(registry, held, number)
        elif step == "requeue":
            for letter in registry.list_claims(ClaimState.DEAD, handler=self.handler.name):
                if letter.sequence_number == number:
                    registry.requeue(self.handler.name, letter.event_id, by="the test")
        elif held:
            self._finish(registry, held.pop(number % len(held)), step, held)

    def _claim(self, registry: SqlRegistry, held: list[Claim], sequence: int) -> None:
        claim = registry.claim(self.handler, event(sequence))
        if claim.outcome is ClaimOutcome.DUPLICATE_DONE and claim.state is ClaimState.DONE:
            assert self.done[claim.event.event_id] == 1
        if claim.granted:
            assert self.done[claim.event.event_id] == 0, "a done event was granted again"
            assert claim.token > self.tokens.get(claim.event.event_id, 0), "tokens must grow"
            self.tokens[claim.event.event_id] = claim.token
            held.append(claim)

    def _finish(self, registry: SqlRegistry, claim: Claim, step: str, held: list[Claim]) -> None:
        current = self.tokens[claim.event.event_id] == claim.token
        try:
            match step:
                case "done":
                    registry.mark_done(claim)
                    self.done[claim.event.event_id] += 1
                case "fail":
                    registry.mark_failed(claim, error="no")
                case "give_up":
                    registry.mark_failed(claim, error="no", retryable=False)
                case "release":
                    registry.release(claim)
                case _:
                    registry.heartbeat(claim)
                    held.append(claim)
        except LeaseLost:
            return
        assert current, "an older token was accepted"


@pytest.mark.clause("K1", "K4", "K8")
@pytest.mark.parametrize("policy", list(GapPolicy))
@settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=st.lists(STEPS, min_size=5, max_size=40))
def test_any_history_keeps_the_promises(
    registry: SqlRegistry,
    other: SqlRegistry,
    clock: VirtualClock,
    policy: GapPolicy,
    steps: list[tuple[str, int, int]],
) -> None:
    handler = Handler(f"run-{next(_runs)}", Effect.IDEMPOTENT, policy, max_retries=1, lease_ms=LEASE_MS)
    history = History([registry, other], clock, handler)
    before = 0
    for step in steps:
        history.play(*step)
        now = reached(registry, handler)
        assert now >= before, "the aggregate went back"
        before = now
    assert set(history.done.values()) <= {1}
    stored = {
        claim.sequence_number: claim.state
        for state in ClaimState
        for claim in registry.list_claims(state, handler=handler.name)
    }
    settled = [number for number in EVENTS if number <= before]
    if policy is GapPolicy.ORDERED:
        assert settled == [number for number in settled if number in stored], "a step was left out"
    else:
        assert before == max((n for n in EVENTS if history.done[event(n).event_id]), default=0)
