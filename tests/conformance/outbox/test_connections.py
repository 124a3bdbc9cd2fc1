"""Rows written through psycopg, sqlite3, SQLAlchemy and Django, also asynchronously."""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import django
import psycopg
import pytest
from django.conf import settings
from django.db import connections, transaction
from django.db.utils import ConnectionHandler
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

import driftq
from driftq import outbox
from tests.conformance.outbox.conftest import Site


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
            (connection.commit if kept else connection.rollback)()
        with engine.connect() as connection:
            write(site, connection, f"sqlalchemy {kept}")
            (connection.commit if kept else connection.rollback)()
        with Session(engine) as session:
            write(site, session, f"session {kept}")
            (session.commit if kept else session.rollback)()
    engine.dispose()
    site.relay()
    ways = ("driver", "cursor", "sqlalchemy", "session")
    assert site.values("orders") == [f"{way} True" for way in ways]
    assert site.sent_to() == [f"{way} True" for way in ways]


@pytest.fixture
def django_alias(site: Site) -> Iterator[str]:
    """The name of the site's database in Django's settings."""
    if not settings.configured:
        settings.configure(DATABASES={"default": {}}, USE_TZ=True)
        django.setup()
    if site.engine == "sqlite":
        database = {"ENGINE": "django.db.backends.sqlite3", "NAME": site.url.removeprefix("sqlite:///")}
    else:
        found = conninfo_to_dict(site.url)
        names = {"HOST": "host", "PORT": "port", "NAME": "dbname", "USER": "user", "PASSWORD": "password"}
        database = {name: str(found.get(given, "")) for name, given in names.items()}
        database["ENGINE"] = "django.db.backends.postgresql"
    alias = f"site-{uuid.uuid4().hex}"
    connections.databases[alias] = ConnectionHandler({"default": {}, alias: database}).databases[alias]
    yield alias
    connections[alias].close()
    del connections.databases[alias]


@pytest.mark.clause("J21")
def test_djangos_connection_writes_in_its_transaction(site: Site, django_alias: str) -> None:
    class Undone(Exception): ...

    connection = connections[django_alias]
    with pytest.raises(Undone), transaction.atomic(using=django_alias):
        write(site, connection, "rolled back")
        raise Undone
    with transaction.atomic(using=django_alias):
        write(site, connection, "kept")
        with pytest.raises(Undone), transaction.atomic(using=django_alias):  # A savepoint.
            write(site, connection, "undone inside")
            raise Undone
    site.relay()
    assert (site.values("orders"), site.sent_to()) == (["kept"], ["kept"])


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


@pytest.mark.parametrize("given", [object(), None, "postgresql://", SimpleNamespace(vendor="mysql")])
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
