"""Rows written through psycopg, sqlite3, SQLAlchemy and what Django offers, also asynchronously."""

from __future__ import annotations

import sqlite3
from typing import Any

import psycopg
import pytest
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

import driftq
from driftq import outbox
from tests.conformance.outbox.conftest import Site


class DjangoCursor:
    """Django's cursor: `%s` on every database."""

    def __init__(self, cursor: Any, *, sqlite: bool) -> None:
        self._cursor = cursor
        self._sqlite = sqlite

    def execute(self, statement: str, values: Any) -> None:
        self._cursor.execute(statement.replace("%s", "?") if self._sqlite else statement, values)

    def close(self) -> None:
        self._cursor.close()


class DjangoConnection:
    """What `django.db.connection` offers that matters here: a vendor and cursors."""

    def __init__(self, connection: Any, vendor: str) -> None:
        self.vendor = vendor
        self.connection = connection

    def cursor(self) -> DjangoCursor:
        return DjangoCursor(self.connection.cursor(), sqlite=self.vendor == "sqlite")


def write(site: Site, connection: Any, name: str) -> None:
    outbox.produce(connection, "orders", name)
    outbox.enqueue(connection, site.send, to=name)


@pytest.mark.clause("J21")
def test_each_kind_of_connection_writes_in_its_transaction(site: Site) -> None:
    address = site.url.replace("postgresql:", "postgresql+psycopg:")
    engine = create_engine(address)
    for kept in (False, True):
        with site.connect() as connection:
            write(site, connection, f"driver {kept}")
            write(site, connection.cursor(), f"cursor {kept}")
            write(site, DjangoConnection(connection, site.engine), f"django {kept}")
            (connection.commit if kept else connection.rollback)()
        with engine.connect() as connection:
            write(site, connection, f"sqlalchemy {kept}")
            (connection.commit if kept else connection.rollback)()
        with Session(engine) as session:
            write(site, session, f"session {kept}")
            (session.commit if kept else session.rollback)()
    engine.dispose()
    site.relay()
    ways = ("driver", "cursor", "django", "sqlalchemy", "session")
    assert site.values("orders") == [f"{way} True" for way in ways]
    assert site.sent_to() == [f"{way} True" for way in ways]


@pytest.mark.clause("J21")
async def test_an_asynchronous_connection_writes_in_its_transaction(postgres_site: Site) -> None:
    site = postgres_site
    for kept in (False, True):
        async with await psycopg.AsyncConnection.connect(site.url) as connection:
            await outbox.produce_async(connection, "orders", f"{kept}")
            await outbox.enqueue_async(connection, site.send, to=f"{kept}")
            await (connection.commit() if kept else connection.rollback())
    with pytest.raises(driftq.InvalidArgument, match="_async"):
        async with await psycopg.AsyncConnection.connect(site.url) as connection:
            outbox.produce(connection, "orders", "never")
    site.relay()
    assert (site.values("orders"), site.sent_to()) == (["True"], ["True"])


@pytest.mark.parametrize("given", [object(), None, "postgresql://", DjangoConnection(None, "mysql")])
def test_what_is_no_connection_is_refused(given: Any) -> None:
    with pytest.raises(driftq.InvalidArgument):
        outbox.produce(given, "orders", "x")


def test_a_row_on_a_connection_in_autocommit_mode_is_a_transaction_of_its_own(site: Site) -> None:
    if site.engine == "sqlite":
        connection: Any = sqlite3.connect(site.url.removeprefix("sqlite:///"), isolation_level=None)
    else:
        connection = psycopg.connect(site.url, autocommit=True)
    outbox.produce(connection, "orders", "alone")
    assert site.relay() == 1
    connection.close()
