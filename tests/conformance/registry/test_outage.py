"""PostgreSQL really stops and comes back: told at once, nothing charged, nothing lost, everything goes on."""

import threading
import time
from collections.abc import Iterator

import pytest

from driftq.errors import DatabaseUnavailable, SchemaOutdated
from driftq.registry import ClaimOutcome, ClaimState, EventKey
from driftq.registry.sql_registry import MIGRATIONS, SqlRegistry
from driftq.sql import Database, open_database, upgrade
from tests.conformance.registry.cast import BILLING, SEARCH, event, reached
from tests.services_postgres import PostgresServer

pytestmark = pytest.mark.clause("X8", "K7")
AWAY_S = 2.0


@pytest.fixture(autouse=True)
def process() -> str:
    """Only here: these tests stop a server, and only the process that started it can."""
    return "own"


@pytest.fixture
def running(private_postgres: PostgresServer) -> Iterator[Database]:
    database = open_database(private_postgres.url, schema="outage")
    upgrade(database, [MIGRATIONS])
    yield database
    database.close()


def test_a_start_without_the_database_fails_fast(private_postgres: PostgresServer) -> None:
    private_postgres.stop()
    began = time.monotonic()
    with pytest.raises(DatabaseUnavailable) as away:
        open_database(private_postgres.url)
    assert time.monotonic() - began < 30, "it gives up; nobody has to wait for a minute"
    assert str(private_postgres.port) in away.value.address
    private_postgres.start()


def test_a_start_without_the_tables_says_what_to_do(private_postgres: PostgresServer) -> None:
    database = open_database(private_postgres.url, schema="empty")
    with pytest.raises(SchemaOutdated, match="driftq db upgrade"):
        SqlRegistry(database)
    database.close()


def test_every_call_says_that_the_database_is_away_and_charges_nothing(
    running: Database, private_postgres: PostgresServer
) -> None:
    registry = SqlRegistry(running)
    held = registry.claim(BILLING, event(1))
    private_postgres.stop()
    until = time.monotonic() + AWAY_S
    while time.monotonic() < until:
        for call in (
            lambda: registry.claim(BILLING, event(1, of="order-2")),
            lambda: registry.heartbeat(held),
            lambda: registry.mark_done(held),
            lambda: registry.mark_failed(held, error="no"),
            lambda: registry.find(BILLING.name, held.event.event_id),
            registry.check,
        ):
            with pytest.raises(DatabaseUnavailable):
                call()
    private_postgres.start()
    stored = registry.find(BILLING.name, held.event.event_id)
    assert (stored.state, stored.attempts, stored.token) == (ClaimState.CLAIMED, 1, held.token)
    registry.heartbeat(held)
    registry.mark_done(held)
    assert reached(registry, BILLING) == 1
    assert registry.claim(BILLING, event(1, of="order-2")).attempt == 1


def test_workers_that_pause_and_go_on_finish_everything_once(
    running: Database, private_postgres: PostgresServer
) -> None:
    """Each call is repeated while the database is away, as a worker does; the outage hits in the middle."""
    events = [
        EventKey(f"busy-{number}", "busy", f"a{number % 10}", 1 + number // 10) for number in range(400)
    ]
    effects: list[str] = []
    paused = threading.Event()
    go_on_at = threading.Event()

    def patiently(call, *arguments):
        while True:
            try:
                return call(*arguments)
            except DatabaseUnavailable:
                paused.set()
                go_on_at.wait(timeout=30)

    def work(share: list[EventKey]) -> None:
        registry = SqlRegistry(running)
        for one in share:
            claim = patiently(registry.claim, SEARCH, one)
            if claim.granted:
                effects.append(one.event_id)
                patiently(registry.mark_done, claim)

    by_aggregate = [
        [one for one in events if one.aggregate_id in names]
        for names in (("a0", "a1", "a2", "a3", "a4"), ("a5", "a6", "a7", "a8", "a9"))
    ]
    workers = [threading.Thread(target=work, args=(share,)) for share in by_aggregate]
    for worker in workers:
        worker.start()
    while len(effects) < 40:
        time.sleep(0.001)
    private_postgres.stop()
    assert paused.wait(timeout=60)
    private_postgres.start()
    go_on_at.set()
    for worker in workers:
        worker.join(timeout=30)
    assert sorted(effects) == sorted(one.event_id for one in events)
    registry = SqlRegistry(running)
    assert {registry.find(SEARCH.name, one.event_id).attempts for one in events} == {1}
    assert {claim.outcome for claim in registry.claim_all(SEARCH, events)} == {ClaimOutcome.DUPLICATE_DONE}
