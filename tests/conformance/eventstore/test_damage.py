"""A row that is not what was appended: never given out, never sealed, on either engine."""

import asyncio
import contextlib
import datetime as dt
from collections.abc import Callable
from queue import SimpleQueue

import pytest
from sqlalchemy import text

from driftq.errors import EventDamaged
from driftq.eventstore import EventStore, event_migrations
from driftq.eventstore.opening import open_event_database
from driftq.eventstore.seal.sealer import Sealing
from driftq.model.options.events import EventOptions
from driftq.server.events.service import EventQueryRequest, EventsService
from driftq.sql import Database, upgrade
from tests.conformance.eventstore.conftest import Setup
from tests.unit.eventstore.making import command

pytestmark = pytest.mark.clause("W4", "S8")

ALWAYS = dt.datetime(1970, 1, 1, tzinfo=dt.UTC), dt.datetime(9999, 1, 1, tzinfo=dt.UTC)
READS: dict[str, Callable[[EventStore], object]] = {
    "aggregate": lambda store: store.read_aggregate("order", "o-1"),
    "log": lambda store: store.read_log(),
    "stored": lambda store: store.read_stored(),
    "time": lambda store: store.read_time(*ALWAYS),
}


def damage(setup: Setup, database: Database, column: str, value: str) -> None:
    table = "events" if setup.engine == "sqlite" else f'"{setup.schema}".events'
    changed = text(f"UPDATE {table} SET {column} = :value WHERE event_id = 'e2'")
    with database.transaction() as transaction:
        assert transaction.connection.execute(changed, {"value": value}).rowcount == 1


@pytest.fixture
def database(setup: Setup) -> Database:
    """Three events of one aggregate, in the log and not sealed."""
    database = setup.database()
    setup.store(database).append(
        [command(f"e{number}", aggregate_id="o-1", payload={"total": number}) for number in (1, 2, 3)]
    )
    setup.sealer(database).assign_positions()
    return database


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("payload", '{"total":3}'),
        ("payload", '{"total":"'),
        ("event_type", "order.chanfed"),
        ("operation", "apqend"),
        ("metadata", '{"kind":"other"}'),
        ("metadata", '{"kind":2}'),
        ("metadata", "{"),
        ("content_hash", "0" * 64),
    ],
)
def test_every_way_of_reading_finds_it(setup: Setup, database: Database, column: str, value: str) -> None:
    damage(setup, database, column, value)
    store = setup.store(database)
    for how, read in READS.items():
        with pytest.raises(EventDamaged) as found:
            read(store)
        facts = (found.value.event_id, found.value.sequence_number, found.value.position)
        assert facts == ("e2", 2, 2), how
        assert (found.value.status, found.value.reason) == (503, "event_damaged")
    assert [event.event_id for event in store.read_log(from_position=3).events] == ["e3"]


def test_it_is_not_sealed_and_nothing_behind_it(setup: Setup, database: Database) -> None:
    damage(setup, database, "payload", '{"total":3}')
    sealer = setup.sealer(database)
    for _ in range(2):
        with pytest.raises(EventDamaged, match="event 'e2'"):
            sealer.step(flush=True)
    assert list(setup.objects.segments()) == []
    damage(setup, database, "payload", '{"total":2}')  # The row is restored.
    sealer.step(flush=True)
    (segment,) = setup.objects.segments()
    assert (segment.first, segment.last) == (1, 3)


def test_a_row_that_was_trimmed_is_checked_with_the_text_of_its_segment(
    setup: Setup, database: Database
) -> None:
    setup.sealer(database, trim=True).step(flush=True)
    store = setup.store(database)
    assert [event.payload for event in store.read_log().events] == [{"total": 1}, {"total": 2}, {"total": 3}]
    damage(setup, database, "event_type", "order.chanfed")
    for how in ("aggregate", "log", "time"):
        with pytest.raises(EventDamaged):
            READS[how](store)


def test_the_sealer_in_the_background_reports_it_and_tries_again_later(
    setup: Setup, database: Database
) -> None:
    damage(setup, database, "payload", '{"total":3}')
    reports: SimpleQueue[Exception] = SimpleQueue()
    sealer = setup.sealer(database, segment_events_max=3)
    sealing = Sealing(sealer, alone=True, on_damage=reports.put)
    found = reports.get(timeout=60)
    sealing.stop()
    assert isinstance(found, EventDamaged)
    assert reports.empty()  # Once is enough.
    assert list(setup.objects.segments()) == []


async def test_damage_stops_the_server_where_the_file_is_its_own(
    setup: Setup, caplog: pytest.LogCaptureFixture
) -> None:
    """PostgreSQL is not only this server's: there the request fails, and the server goes on."""
    options = EventOptions(database_url=setup.url, sequence_schema=f"{setup.schema}_sequence")
    with contextlib.closing(open_event_database(options)) as database:
        upgrade(database, event_migrations(database))
        setup.schema = "driftq"  # Where a server has its tables.
        EventStore(database).append([command(f"e{number}", payload={"total": number}) for number in (1, 2)])
        damage(setup, database, "payload", '{"total":3}')
    reported: list[Exception] = []
    service = EventsService(options, loop=asyncio.get_running_loop(), on_damage=reported.append)
    answers: asyncio.Queue[object] = asyncio.Queue()
    service.read(EventQueryRequest(lambda store: store.read_aggregate("order", "o-1"), answers.put_nowait))
    answer = await answers.get()
    assert isinstance(answer, EventDamaged)
    service.read(EventQueryRequest(lambda store: store.read_aggregate("order", "o-2"), answers.put_nowait))
    assert not isinstance(await answers.get(), Exception)
    assert reported == ([answer] if setup.engine == "sqlite" else [])
    errors = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert errors == [str(answer)]
    await asyncio.to_thread(service.stop)
