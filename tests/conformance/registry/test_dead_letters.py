"""Dead letters of handlers: written with the death of their event, published, and marked when redriven."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec import structs

from driftq.errors import RelayFenced
from driftq.model.dead_letter import HandlerDeadLetter, HandlerKind
from driftq.pipeline.worker.queues import TopicEvent
from driftq.registry import ClaimState, EventKey, Handler, Resolution
from driftq.registry.outbox import DeadLetterRows, WorkerOutbox
from driftq.registry.parking import ParkedEvent, Parking
from driftq.registry.sql_registry import MIGRATIONS, SqlRegistry
from driftq.sql import Database, Dialect, Transaction, open_database, upgrade
from driftq.sql.migrations import Migrations
from driftq.testing.clock import VirtualClock
from tests.conformance.registry.cast import BILLING, LEASE_MS, MAIL, event


@pytest.fixture
def parking(database: Database) -> Parking:
    return Parking(database)


@pytest.fixture
def rows(database: Database) -> DeadLetterRows:
    return DeadLetterRows(database)


def message(offset: int = 7) -> ParkedEvent:
    return ParkedEvent(topic="orders", partition=2, offset=offset, value=f'{{"offset":{offset}}}')


def give_up(
    registry: SqlRegistry,
    parking: Parking,
    *,
    sequence: int = 1,
    handler: Handler = BILLING,
    error: str = "no",
) -> EventKey:
    """As a worker does: the text first, then the mark."""
    dying = event(sequence)
    claim = registry.claim(handler, dying)
    parking.park(handler.name, [(dying, message(sequence))])
    registry.mark_failed(claim, error=error, retryable=False)
    return dying


def pending(outbox: WorkerOutbox) -> list[HandlerDeadLetter]:
    return outbox.pending(limit=100)


@pytest.mark.clause("K5", "K5d", "K10")
def test_the_dead_letter_is_written_with_the_death(
    registry: SqlRegistry, parking: Parking, rows: DeadLetterRows, clock: VirtualClock
) -> None:
    outbox = rows.take_over(BILLING.name)
    claim = registry.claim(BILLING, event())
    registry.mark_failed(claim, error="not yet")
    assert pending(outbox) == []
    clock.advance(ms=LEASE_MS)
    dead = give_up(registry, parking, error="never")
    [letter] = pending(outbox)
    assert letter == HandlerDeadLetter(
        kind=HandlerKind.WORKER,
        handler="billing",
        topic="orders",
        partition=2,
        offset=1,
        stage="handle",
        error="never",
        reason="not_retryable",
        attempts=2,
        at=clock.now(),
        key="order-1",
        value='{"offset":1}',
        event_id=dead.event_id,
    )
    outbox.mark_published([letter])
    assert pending(outbox) == []
    mark = rows.find([letter.id, "unknown"])[letter.id]
    assert (mark.event_id, mark.published_at, mark.redriven_at) == (dead.event_id, clock.now(), 0)


@pytest.mark.clause("K5", "K5d", "K10")
def test_a_transaction_that_is_not_kept_leaves_neither_death_nor_dead_letter(
    registry: SqlRegistry, parking: Parking, rows: DeadLetterRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted(Exception):
        pass

    def interrupt(*_: object) -> None:
        raise Interrupted

    dying = event()
    claim = registry.claim(BILLING, dying)
    parking.park(BILLING.name, [(dying, message())])
    monkeypatch.setattr("driftq.registry.finishing._advance", interrupt)  # After the dead letter is written.
    with pytest.raises(Interrupted):
        registry.mark_failed(claim, error="no", retryable=False)
    assert registry.find(BILLING.name, dying.event_id).state is ClaimState.CLAIMED
    assert pending(rows.take_over(BILLING.name)) == []


@pytest.mark.clause("K5", "K5d", "K10")
def test_an_event_whose_last_lease_lapsed_has_one_when_its_text_is_parked(
    registry: SqlRegistry, other: SqlRegistry, parking: Parking, rows: DeadLetterRows, clock: VirtualClock
) -> None:
    outbox = rows.take_over(BILLING.name)
    for known_text in (False, True):
        dying = event(1 + known_text)
        for _ in range(BILLING.max_attempts):
            assert registry.claim(BILLING, dying).granted
            clock.advance(ms=LEASE_MS)
        if known_text:
            parking.park(BILLING.name, [(dying, message(dying.sequence_number))])
        assert other.claim(BILLING, dying).state is ClaimState.DEAD
        assert len(pending(outbox)) == (2 if known_text else 0)
        if not known_text:
            parking.park(BILLING.name, [(dying, message(1))])
            assert rows.record(BILLING.name, [dying.event_id]) == 1
            assert rows.record(BILLING.name, [dying.event_id]) == 0
    assert {letter.error for letter in pending(outbox)} == {"lease_expired"}
    assert {letter.reason for letter in pending(outbox)} == {"max_attempts"}


@pytest.mark.clause("K10")
def test_an_unknown_effect_that_is_resolved_as_dead_has_one(
    registry: SqlRegistry, parking: Parking, rows: DeadLetterRows
) -> None:
    dying = event()
    claim = registry.claim(MAIL, dying)
    parking.park(MAIL.name, [(dying, message())])
    registry.mark_unknown(claim, error="who knows")
    outbox = rows.take_over(MAIL.name)
    assert pending(outbox) == []
    registry.resolve(MAIL.name, dying.event_id, Resolution.DEAD, by="ada")
    [letter] = pending(outbox)
    assert (letter.error, letter.reason) == ("who knows", "not_retryable")


@pytest.mark.clause("K10")
def test_a_message_that_is_no_event_failed_to_decode(
    registry: SqlRegistry, parking: Parking, rows: DeadLetterRows
) -> None:
    unfit = EventKey("unfit:orders/2/7", "unfit", "unfit:orders/2/7", 1)
    claim = registry.claim(BILLING, unfit)
    parking.park(BILLING.name, [(unfit, message())])
    registry.mark_failed(claim, error="not JSON", retryable=False)
    [letter] = pending(rows.take_over(BILLING.name))
    assert (letter.stage, letter.event_id, letter.key, letter.offset) == ("decode", None, "", 7)


@pytest.mark.clause("K10", "V10")
def test_a_recreated_topic_has_dead_letters_of_its_own(
    registry: SqlRegistry, parking: Parking, rows: DeadLetterRows
) -> None:
    """The same place on two topics of one name, at which different messages were no events."""
    for identity in ("driftq/first", "driftq/again"):
        there = structs.replace(message(), identity=identity)
        unfit = TopicEvent.unfit(there, "not JSON").key
        claim = registry.claim(BILLING, unfit)
        parking.park(BILLING.name, [(unfit, there)])
        registry.mark_failed(claim, error="not JSON", retryable=False)
    letters = pending(rows.take_over(BILLING.name))
    assert {letter.identity for letter in letters} == {"driftq/first", "driftq/again"}
    assert len({letter.id for letter in letters}) == 2


@pytest.mark.clause("K10", "K5", "X6")
def test_a_requeued_event_is_marked_and_a_second_death_is_published_again(
    registry: SqlRegistry, parking: Parking, rows: DeadLetterRows, clock: VirtualClock
) -> None:
    dead = give_up(registry, parking, error="first")
    outbox = rows.take_over(BILLING.name)
    [first] = pending(outbox)
    outbox.mark_published([first])
    clock.advance(ms=10)
    registry.requeue(BILLING.name, dead.event_id, by="ada")
    mark = rows.find([first.id])[first.id]
    assert (mark.redriven_at, mark.redriven_by, mark.redrives) == (clock.now(), "ada", 0)
    assert pending(outbox) == []
    registry.mark_failed(registry.claim(BILLING, dead), error="second", retryable=False)
    [second] = pending(outbox)
    assert (second.id, second.redrives, second.error) == (first.id, 1, "second")
    assert second.value == first.value
    assert rows.find([first.id])[first.id].redriven_at == 0
    outbox.mark_published([first])  # A relay that was slow: it published the first death.
    assert pending(outbox) == [second]
    outbox.mark_published([second])
    assert pending(outbox) == []


@pytest.mark.clause("K10")
def test_only_the_newest_runs_relay_reads_and_marks(
    registry: SqlRegistry, parking: Parking, rows: DeadLetterRows
) -> None:
    give_up(registry, parking)
    older = rows.take_over(BILLING.name)
    seen = pending(older)
    rows.take_over(MAIL.name)  # Another handler's relay fences no one.
    assert pending(older) == seen
    newer = rows.take_over(BILLING.name)
    with pytest.raises(RelayFenced):
        older.mark_published(seen)
    with pytest.raises(RelayFenced):
        pending(older)
    assert pending(newer) == seen
    assert rows.count_unpublished() == 1


@pytest.mark.clause("K10")
def test_pages_go_on_behind_the_last_one(
    registry: SqlRegistry, parking: Parking, rows: DeadLetterRows, clock: VirtualClock
) -> None:
    for sequence in range(1, 8):
        give_up(registry, parking, sequence=sequence)
        clock.advance(ms=sequence % 2)
    outbox = rows.take_over(BILLING.name)
    found: list[HandlerDeadLetter] = []
    while page := outbox.pending(limit=3, after=found[-1] if found else None):
        found += page
    assert found == pending(outbox)
    assert sorted(letter.offset for letter in found) == list(range(1, 8))
    assert [letter.at for letter in found] == sorted(letter.at for letter in found)


# Databases of the version before


def _before(versions: Sequence[int]) -> Migrations:
    known = [*MIGRATIONS.changes(Dialect.SQLITE), *MIGRATIONS.changes(Dialect.POSTGRES)]
    distinct = {(one.version, one.dialect): one for one in known if one.version in versions}
    return Migrations(MIGRATIONS.room, list(distinct.values()))


def _insert_dead_of_before(transaction: Transaction) -> None:
    """What the version before stored for an event that it gave up, and for one that it had done."""
    table = transaction.renderer.render
    for number, state in ((1, "dead"), (2, "done"), (3, "dead")):
        transaction.connection.exec_driver_sql(
            table(
                "INSERT INTO {claims} (handler, event_id, aggregate_type, aggregate_id, sequence_number,"
                " state, token, attempts, effect, gap_policy, owner, incarnation, last_error, reason,"
                " claimed_at)"
                f" VALUES ('billing', 'e{number}', 'order', 'o{number}', 1, '{state}', {number}, 3,"
                " 'idempotent', 'ordered', 'w', 'i', 'broken', 'max_attempts', 5)"
            )
        )
    transaction.connection.exec_driver_sql(
        table(
            "INSERT INTO {parked} (handler, event_id, aggregate_type, aggregate_id, sequence_number, topic,"
            " topic_partition, topic_offset, value, parked_at)"
            " VALUES ('billing', 'e1', 'order', 'o1', 1, 'orders', 0, 4, 'the text', 5)"
        )
    )


@pytest.mark.clause("K10")
def test_dead_events_of_the_version_before_become_dead_letters(
    request: pytest.FixtureRequest, tmp_path: Path, clock: VirtualClock
) -> None:
    for engine in ("sqlite", "postgres"):
        if engine == "sqlite":
            database = open_database(f"sqlite:///{tmp_path}/before.db", clock=clock)
        else:
            url = request.getfixturevalue("postgres_database_url")
            schema = f"before_{request.node.name.split('[')[-1].rstrip(']').replace('-', '_')}"
            database = open_database(url, schema=schema, clock=clock)
        upgrade(database, [_before(range(1, 5))])
        with database.transaction() as transaction:
            _insert_dead_of_before(transaction)
        upgrade(database, [MIGRATIONS])
        rows = DeadLetterRows(database)
        assert rows.record_missing("billing") == 1
        assert rows.record_missing("billing") == 0
        [letter] = rows.take_over("billing").pending(limit=10)
        assert (letter.event_id, letter.offset, letter.value, letter.attempts) == ("e1", 4, "the text", 3)
        registry = SqlRegistry(database)
        assert registry.requeue("billing", "e1", by="ada").state is ClaimState.READY
        assert registry.requeue("billing", "e3", by="ada").state is ClaimState.READY  # Without a text.
        database.close()
