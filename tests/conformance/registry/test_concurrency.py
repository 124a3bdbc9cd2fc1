"""However many ask at once, one gets the event, and nobody waits in a circle."""

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from random import Random
from typing import TypeVar

import pytest

from driftq.errors import InvalidArgument, LeaseLost
from driftq.registry import Claim, ClaimOutcome, EventKey
from driftq.registry.sql_registry import SqlRegistry
from driftq.testing.clock import VirtualClock
from tests.conformance.registry.cast import BILLING, LEASE_MS, SEARCH, event, reached
from tests.conformance.registry.conftest import OpenDatabase

Result = TypeVar("Result")


def at_once(calls: Sequence[Callable[[], Result]]) -> list[Result]:
    """Start all calls at the same moment, one thread each."""
    gate = threading.Barrier(len(calls))

    def pass_gate(call: Callable[[], Result]) -> Result:
        gate.wait()
        return call()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(pass_gate, calls))


@pytest.mark.clause("X5", "K1")
@pytest.mark.parametrize("handler", [BILLING, SEARCH], ids=lambda handler: handler.gap_policy.value)
def test_two_workers_that_receive_one_event(registry: SqlRegistry, other: SqlRegistry, handler) -> None:
    for number in range(10):
        wanted = event(1, of=f"order-{number}")
        claims = at_once([partial(one.claim, handler, wanted) for one in (registry, other)])
        assert sorted(claim.outcome for claim in claims) == [ClaimOutcome.CLAIMED, ClaimOutcome.IN_PROGRESS]


@pytest.mark.clause("X5")
def test_fifty_claimers_of_one_event(open_again: OpenDatabase, clock: VirtualClock) -> None:
    registries = [SqlRegistry(open_again(clock), owner=f"worker-{number}") for number in range(5)]
    claims = at_once([partial(one.claim, BILLING, event()) for one in registries * 10])
    assert Counter(claim.outcome for claim in claims) == {
        ClaimOutcome.CLAIMED: 1,
        ClaimOutcome.IN_PROGRESS: 49,
    }
    clock.advance(ms=LEASE_MS)
    again = at_once([partial(one.claim, BILLING, event()) for one in registries * 10])
    [second] = [claim for claim in again if claim.granted]
    [first] = [claim for claim in claims if claim.granted]
    assert second.token > first.token
    assert second.attempt == 2


@pytest.mark.clause("X5", "K1")
def test_overlapping_batches_in_any_order_share_the_events_out(
    open_again: OpenDatabase, clock: VirtualClock
) -> None:
    events = [event(1, of=f"order-{number}") for number in range(60)]
    registries = [SqlRegistry(open_again(clock), owner=f"worker-{number}") for number in range(4)]

    def work(registry: SqlRegistry, seed: int) -> list[Claim]:
        mine = Random(seed).sample(events, len(events))
        claims = [claim for claim in registry.claim_all(SEARCH, mine) if claim.granted]
        assert registry.mark_done_all(claims) == []
        return claims

    shares = at_once([partial(work, one, seed) for seed, one in enumerate(registries)])
    granted = Counter(claim.event.event_id for share in shares for claim in share)
    assert granted == {one.event_id: 1 for one in events}
    assert {reached(registries[0], SEARCH, of=one.aggregate_id) for one in events} == {1}


@pytest.mark.clause("K1", "K8")
def test_many_workers_bring_an_ordered_aggregate_to_its_end_without_a_step_left_out(
    registry: SqlRegistry, other: SqlRegistry
) -> None:
    applied: list[int] = []

    def work(own: SqlRegistry, seed: int) -> None:
        chance = Random(seed)
        left = list(range(1, 21))
        while left:
            sequence = chance.choice(left)
            claim = own.claim(BILLING, event(sequence))
            if claim.granted:
                applied.append(sequence)
                own.mark_done(claim)
            if claim.outcome is not ClaimOutcome.IN_PROGRESS:
                left.remove(sequence)

    at_once([partial(work, one, seed) for seed, one in enumerate([registry, other] * 2)])
    assert applied == list(range(1, 21))


@pytest.mark.clause("K1")
def test_takeover_and_mark_done_of_the_same_events_end_with_one_winner_each(
    registry: SqlRegistry, other: SqlRegistry, clock: VirtualClock
) -> None:
    """One side finishes what the other takes over: locks are taken in one order, or this would deadlock."""
    events = [EventKey(f"e{number}", "order", f"order-{number % 7}", number + 1) for number in range(40)]
    held = registry.claim_all(SEARCH, events)
    clock.advance(ms=LEASE_MS)
    lost, taken = at_once(
        [partial(registry.mark_done_all, held), partial(other.claim_all, SEARCH, events[::-1])]
    )
    won_by_first = {claim.event.event_id for claim in held} - {claim.event.event_id for claim in lost}
    won_by_second = {claim.event.event_id for claim in taken if claim.granted}
    assert not won_by_first & won_by_second


@pytest.mark.clause("K1", "K4")
@pytest.mark.parametrize("open_again", ["sqlite"], indirect=True)
def test_callers_of_one_registry_share_the_transactions_of_sqlite(
    registry: SqlRegistry, other: SqlRegistry, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = registry.claim(BILLING, event(1, of="lost"))
    clock.advance(ms=LEASE_MS)
    assert other.claim(BILLING, event(1, of="lost")).granted
    database, begun = registry.database, []
    begin = database.transaction

    def counted(**options: bool):
        begun.append(options)
        return begin(**options)

    monkeypatch.setattr(database, "transaction", counted)
    wanted = [event(1, of=f"order-{number % 20}") for number in range(24)]  # Four events are asked for twice.
    with ThreadPoolExecutor(25) as pool:
        with begin():  # The writer is busy, so the calls gather.
            claiming = [pool.submit(registry.claim, BILLING, each) for each in wanted]
            while len(registry._together.claims._waiting) < 23:  # type: ignore[union-attr]
                assert not any(one.done() for one in claiming)
        claims = [one.result(5) for one in claiming]
        assert len(begun) <= 3  # The first caller's, that of those who waited, and of those who came twice.
        granted = [claim for claim in claims if claim.granted]
        assert sorted(claim.event.event_id for claim in granted) == sorted({one.event_id for one in wanted})
        begun.clear()
        with begin():
            marking = [pool.submit(registry.mark_done, claim) for claim in (*granted, lost)]
            while len(registry._together.marks._waiting) < 20:  # type: ignore[union-attr]
                assert not any(one.done() for one in marking)
        assert isinstance(marking.pop().exception(5), LeaseLost)
        assert [one.result(5) for one in marking] == [None] * 20
    assert len(begun) <= 3  # The lost one makes its go look at each mark.
    assert {reached(registry, BILLING, of=f"order-{number}") for number in range(20)} == {1}


@pytest.mark.parametrize("open_again", ["sqlite"], indirect=True)
def test_a_claim_that_is_refused_harms_nobody_else(registry: SqlRegistry) -> None:
    wrong = EventKey("e-0", "order", "order-0", 0)
    calls = [
        partial(registry.claim, BILLING, one) for one in (wrong, *(event(1, of=f"o{n}") for n in range(8)))
    ]

    def outcome(call: Callable[[], Claim]) -> object:
        try:
            return call().outcome
        except InvalidArgument as refused:
            return type(refused)

    answers = at_once([partial(outcome, call) for call in calls])
    assert answers == [InvalidArgument, *[ClaimOutcome.CLAIMED] * 8]
