"""Events appended in the caller's own transaction: visible and numbered only if it commits."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

import driftq
from driftq.eventstore import event_migrations
from driftq.eventstore.opening import open_events
from driftq.model.options.events import EventOptions
from driftq.sql import open_database, upgrade
from tests.services_postgres import fresh_database, own_database_url, postgres_url

__all__ = ["own_database_url", "postgres_url"]


def event(number: int, aggregate: str = "o-1", **fields: Any) -> driftq.Event:
    return driftq.Event(
        event_id=f"{aggregate}-{number}",
        aggregate_type="order",
        aggregate_id=aggregate,
        event_type="order.changed",
        kind="order",
        payload={"n": number},
        **fields,
    )


@pytest.fixture
def store(
    own_database_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[driftq.EventStore]:
    monkeypatch.setenv("DRIFTQ_DATABASE_URL", own_database_url)
    options = EventOptions(database_url=own_database_url)
    database = open_database(own_database_url, schemas={"sequence": options.sequence_schema})
    upgrade(database, event_migrations(database))
    database.close()
    with driftq.open(tmp_path / "data") as broker, driftq.EventStore(broker) as opened:
        yield opened


def stored(store: driftq.EventStore, aggregate: str = "o-1") -> list[tuple[int | None, str]]:
    return [(each.sequence_number, each.event_id) for each in store.read("order", aggregate)]


@pytest.mark.clause("S10")
def test_an_event_is_there_only_if_the_transaction_commits(
    store: driftq.EventStore, own_database_url: str
) -> None:
    with psycopg.connect(own_database_url) as connection:
        connection.execute("CREATE TABLE shop (id int)")
        connection.commit()
        connection.execute("INSERT INTO shop VALUES (1)")
        assert store.append(event(1), transaction=connection).sequence_number == 1
        assert stored(store) == [], "nobody sees it before the commit"
        connection.rollback()
        assert stored(store) == []
        connection.execute("INSERT INTO shop VALUES (2)")
        assert store.append(event(2), transaction=connection).sequence_number == 1, "no number is lost"
        assert store.append(event(3), expected_seq=1, transaction=connection).sequence_number == 2
        connection.commit()
        assert stored(store) == [(1, "o-1-2"), (2, "o-1-3")]
        assert connection.execute("SELECT id FROM shop").fetchall() == [(2,)]
    assert store.append(event(4)).sequence_number == 3, "the server goes on behind it"


@pytest.mark.clause("S10")
def test_a_refused_event_leaves_the_transaction_as_it_was(
    store: driftq.EventStore, own_database_url: str
) -> None:
    with psycopg.connect(own_database_url) as connection:
        connection.execute("CREATE TABLE shop (id int)")
        store.append(event(1), transaction=connection)
        with pytest.raises(driftq.SequenceConflict) as conflict:
            store.append(event(2), expected_seq=0, transaction=connection)
        assert (conflict.value.expected_seq, conflict.value.actual_seq) == (0, 1)
        with pytest.raises(driftq.EventIdReused):
            changed = driftq.Event(
                event_id="o-1-1",
                aggregate_type="order",
                aggregate_id="o-1",
                event_type="order.changed",
                kind="order",
                payload={"other": True},
            )
            store.append(changed, transaction=connection)
        assert store.append(event(1), transaction=connection).duplicate
        connection.commit()
    assert stored(store) == [(1, "o-1-1")]
    assert store.append(event(2)).sequence_number == 2, "what was refused used no number"


@pytest.mark.clause("S10")
def test_sqlalchemy_joins_as_well(store: driftq.EventStore, own_database_url: str) -> None:
    engine = create_engine(own_database_url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.connect() as connection:
        store.append(event(1), transaction=connection)
        connection.rollback()
        store.append(event(2), transaction=connection)
        connection.commit()
    with Session(engine) as session:
        store.append(event(3), transaction=session)
        session.commit()
    engine.dispose()
    assert stored(store) == [(1, "o-1-2"), (2, "o-1-3")]


@pytest.mark.clause("S10")
def test_events_of_a_long_transaction_come_later_in_the_log_and_leave_no_gap(
    store: driftq.EventStore, own_database_url: str
) -> None:
    with psycopg.connect(own_database_url) as connection:
        store.append(event(1, "slow"), transaction=connection)
        store.append(event(1, "quick"))
        connection.commit()
    opened = open_events(EventOptions(database_url=own_database_url))
    try:
        assert opened.sealer.take(force=True)
        opened.sealer.step()
        log = opened.store.read_log().events
    finally:
        opened.close()
    assert [each.position for each in log] == [1, 2]
    assert {each.event_id for each in log} == {"slow-1", "quick-1"}


@pytest.mark.clause("S10")
def test_a_connection_elsewhere_is_refused_and_points_to_the_outbox(
    store: driftq.EventStore, postgres_url: str, tmp_path: Path
) -> None:
    with fresh_database(postgres_url) as other, psycopg.connect(other) as connection:
        with pytest.raises(driftq.InvalidArgument, match=r"another database .* driftq\.outbox\.append"):
            store.append(event(1), transaction=connection)
        connection.rollback()
    shop, refused = closing(sqlite3.connect(tmp_path / "shop.db")), pytest.raises(driftq.InvalidArgument)
    with shop as elsewhere, refused as refusal:
        store.append(event(1), transaction=elsewhere)
    assert "driftq.outbox.append" in str(refusal.value)
    assert stored(store) == []


@pytest.mark.clause("S10")
def test_the_same_database_by_another_name_is_accepted(
    store: driftq.EventStore, own_database_url: str
) -> None:
    with psycopg.connect(own_database_url.replace("127.0.0.1", "localhost")) as connection:
        assert store.append(event(1), transaction=connection).sequence_number == 1
        connection.rollback()


@pytest.mark.clause("S10")
def test_an_event_store_in_sqlite_refuses_and_points_to_the_outbox(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, own_database_url: str
) -> None:
    monkeypatch.delenv("DRIFTQ_DATABASE_URL", raising=False)
    with driftq.open(tmp_path / "data") as broker, psycopg.connect(own_database_url) as connection:
        store = driftq.EventStore(broker)
        with pytest.raises(driftq.InvalidArgument, match=r"driftq\.outbox\.append"):
            store.append(event(1), transaction=connection)


def test_a_connection_in_autocommit_mode_is_refused(store: driftq.EventStore, own_database_url: str) -> None:
    with psycopg.connect(own_database_url, autocommit=True) as connection:
        with pytest.raises(driftq.InvalidArgument, match="autocommit"):
            store.append(event(1), transaction=connection)
        with connection.transaction():
            store.append(event(1), transaction=connection)
    assert stored(store) == [(1, "o-1-1")]
