"""An outbox on each engine, a broker to send to, and a client's view of what arrived."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

import driftq
from tests.services_postgres import own_database_url, postgres_url

__all__ = ["own_database_url", "postgres_url"]


class Site:
    """A user's database with an outbox, and the broker that its rows go to."""

    def __init__(self, engine: str, url: str, broker: driftq.Client) -> None:
        self.engine = engine
        self.url = url
        self.broker = broker
        self.jobs = driftq.Jobs(broker)

        @self.jobs.task(queue="mail", max_retries=7)
        def send(to: str, cc: str = "") -> None: ...

        self.send = send
        self.admin = self.outbox()
        self.admin.create()

    def connect(self) -> Any:
        if self.engine == "sqlite":
            return closing(sqlite3.connect(self.url.removeprefix("sqlite:///")))
        return closing(psycopg.connect(self.url))

    def outbox(self, **options: Any) -> driftq.outbox.Outbox:
        return driftq.outbox.Outbox(self.url, self.broker, **options)

    def relay(self, **options: Any) -> int:
        """Send everything that is committed now."""
        return self.outbox(**options).run(once=True)

    def values(self, topic: str) -> list[str]:
        return [record.value for record in self.broker.records(topic)]

    def sent_to(self) -> list[str]:
        """The addresses of the enqueued jobs, in the order in which they were enqueued."""
        return [job.payload["to"] for job in self.broker.jobs.list(queue="mail")]


@pytest.fixture(params=["sqlite", "postgresql"])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def site(engine: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    url = f"sqlite:///{tmp_path / 'shop.db'}"
    if engine == "postgresql":
        url = request.getfixturevalue("own_database_url")
    with driftq.open(tmp_path / "data", fsync="off") as broker:
        broker.create_topic("orders", partitions=2)
        made = Site(engine, url, broker)
        yield made
        made.admin.close()


@pytest.fixture
def postgres_site(own_database_url: str, tmp_path: Path) -> Iterator[Site]:
    with driftq.open(tmp_path / "data", fsync="off") as broker:
        broker.create_topic("orders", partitions=2)
        made = Site("postgresql", own_database_url, broker)
        yield made
        made.admin.close()
