"""Applications and relays killed with SIGKILL at random: what arrives is exactly what was committed.

The same story with 20,000 rows is among the tests of services.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import driftq
from tests.acceptance.outbox.story import connect, run_story
from tests.harness import ServerProcess
from tests.services_postgres import own_database_url, postgres_url
from tests.support.waiting import wait_until

__all__ = ["own_database_url", "postgres_url"]


@pytest.fixture(params=["postgresql", "sqlite"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'shop.db'}"
    return str(request.getfixturevalue("own_database_url"))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "data", "--fsync", "interval") as running:
        yield running


@pytest.mark.clause("J21")
def test_what_arrives_is_what_was_committed(database: str, server: ServerProcess) -> None:
    run_story(database, server, rows=300, steps=2)


def test_a_relay_waits_through_an_outage_of_the_server(tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path / 'shop.db'}"
    with ServerProcess(tmp_path / "data") as server, connect(database) as connection:
        url = f"http://127.0.0.1:{server.port}"
        with driftq.Client(url, timeout_s=1) as client:
            client.create_topic("orders")
            driftq.outbox.create(connection)
            connection.commit()
            server.kill()
            driftq.outbox.produce(connection, "orders", "1")
            connection.commit()
            run = ["-m", "driftq", "outbox", "run", "--database", database, "--url", url]
            relay = subprocess.Popen([sys.executable, *run], stderr=subprocess.PIPE, text=True)
            try:
                assert relay.stderr is not None
                wait_for_line(relay.stderr, "waits")
                server.start()
                wait_until(
                    "the row is sent",
                    lambda: [r.value for r in client.records("orders")] == ["1"],
                    within_s=60,
                )
            finally:
                relay.terminate()
                relay.communicate(timeout=30)
            assert relay.returncode == 0


def wait_for_line(lines: Any, word: str) -> None:
    end = time.monotonic() + 90
    for line in lines:
        if word in line:
            return
        assert time.monotonic() < end
    raise AssertionError(f"it ended without {word}")
