"""A registry that was made before a fork: parent and child are two workers, never one."""

import multiprocessing
import os
from functools import partial

import pytest

from driftq.errors import UsedAfterFork
from driftq.registry import ClaimOutcome
from driftq.registry.sql_registry import SqlRegistry
from driftq.sql import Database, Dialect, open_database
from driftq.testing.clock import VirtualClock
from tests.conformance.registry.cast import BILLING, LEASE_MS, SEARCH, event, reached
from tests.support.forked import run_in_child

FORK = multiprocessing.get_context("fork")


@pytest.fixture(autouse=True)
def process() -> str:
    """These tests fork by themselves."""
    return "own"


def claim_and_expect(registry: SqlRegistry, sequence: int, outcome: ClaimOutcome) -> None:
    assert registry.claim(SEARCH, event(sequence)).outcome is outcome


@pytest.mark.clause("K1", "X5")
def test_what_a_child_has_claimed_its_parent_does_not_get(registry: SqlRegistry) -> None:
    for number in range(1, 21):
        run_in_child(partial(claim_and_expect, registry, number, ClaimOutcome.CLAIMED))
        assert registry.claim(SEARCH, event(number)).outcome is ClaimOutcome.IN_PROGRESS


@pytest.mark.clause("K1", "X5")
def test_what_a_parent_has_claimed_its_child_does_not_get(registry: SqlRegistry, clock: VirtualClock) -> None:
    held = registry.claim(SEARCH, event(1))
    run_in_child(partial(claim_and_expect, registry, 1, ClaimOutcome.IN_PROGRESS))
    assert registry.heartbeat_all([held]) == []
    registry.mark_done(held)
    clock.advance(ms=LEASE_MS)
    run_in_child(partial(claim_and_expect, registry, 1, ClaimOutcome.DUPLICATE_DONE))


@pytest.mark.clause("K1", "X5")
def test_each_process_has_a_name_of_its_own(registry: SqlRegistry) -> None:
    named = FORK.SimpleQueue()

    def put_name() -> None:
        named.put(registry.incarnation)

    run_in_child(put_name)
    run_in_child(put_name)
    assert len({registry.incarnation, named.get(), named.get()}) == 3


def work_through(registry: SqlRegistry, events: int, effects: int) -> None:
    """Claim and finish every event that nobody else has, and write down which."""
    left = list(range(events))
    while left:
        for number in list(left):
            claim = registry.claim(BILLING, event(1, of=f"order-{number}"))
            if claim.granted:
                os.write(effects, b"%03d\n" % number)
                registry.mark_done(claim)
            if claim.outcome is not ClaimOutcome.IN_PROGRESS:
                left.remove(number)


@pytest.mark.clause("K1", "X5")
def test_a_family_of_processes_does_every_event_once(registry: SqlRegistry, database: Database) -> None:
    """The parent works while it forks: no connection, lock or half of a transaction goes along."""
    readable, writable = os.pipe()
    children = [
        FORK.Process(target=work_through, args=(registry, 60, writable), daemon=True) for _ in range(3)
    ]
    for child in children:
        child.start()
    work_through(registry, 60, writable)
    for child in children:
        child.join(timeout=60)
    assert [child.exitcode for child in children] == [0, 0, 0]
    os.close(writable)
    with os.fdopen(readable) as told:
        assert sorted(int(line) for line in told) == list(range(60))
    assert {reached(registry, BILLING, of=f"order-{number}") for number in range(60)} == {1}
    if database.dialect is Dialect.SQLITE:
        with database.snapshot() as reading:
            assert reading.connection.exec_driver_sql("PRAGMA integrity_check").scalar_one() == "ok"


@pytest.mark.clause("K1")
def test_a_transaction_stays_with_the_process_that_began_it(registry: SqlRegistry) -> None:
    """The child cannot use it, and leaving its block there neither keeps it nor rolls it back."""
    claim = registry.claim(BILLING, event(1))
    readable, writable = os.pipe()
    child = -1
    try:
        with registry.apply(claim):
            child = os.fork()
            if child:
                os.waitpid(child, 0)
    except UsedAfterFork as refused:
        os.write(writable, refused.what.encode())
    finally:
        if not child:
            os._exit(0)
    assert os.read(readable, 100) == b"this transaction"
    assert reached(registry, BILLING) == 1


def test_a_database_in_memory_is_the_parents_alone() -> None:
    registry = SqlRegistry(open_database("sqlite:///:memory:"))

    def refused() -> None:
        with pytest.raises(UsedAfterFork, match="in memory"):
            registry.claim(BILLING, event(1))

    run_in_child(refused)
    assert registry.claim(BILLING, event(1)).granted
