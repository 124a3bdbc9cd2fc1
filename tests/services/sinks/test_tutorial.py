"""The tutorial of a shop with a database, a search index and a cache, pasted as a newcomer would."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pasting import PATIENCE_S, ROOT, Shell, check
from tests.harness import ServerProcess
from tests.services_opensearch import search_url
from tests.services_postgres import own_database_url, postgres_url
from tests.services_redis import RedisServer, make_redis, private_redis

__all__ = ["make_redis", "own_database_url", "postgres_url", "private_redis", "search_url"]

PAGE = ROOT / "docs/tutorials/search-and-cache.md"
SERVED = "postgresql://driftq@localhost/shop"


@pytest.fixture
def server(tmp_path: Path, own_database_url: str) -> Iterator[ServerProcess]:
    env = {"DRIFTQ_DATABASE_URL": own_database_url}
    upgrade = [sys.executable, "-m", "driftq", "db", "upgrade"]
    subprocess.run(upgrade, env=os.environ | env, check=True, capture_output=True)
    with ServerProcess(tmp_path / "driftq-data", env=env) as started:
        yield started


@pytest.mark.timeout(3 * PATIENCE_S)  # It starts Spark twice.
@pytest.mark.clause("N3", "V2", "V5", "V6")
def test_the_shop_has_the_same_orders_in_all_three(
    tmp_path: Path, server: ServerProcess, own_database_url: str, search_url: str, private_redis: RedisServer
) -> None:
    places = {
        SERVED: own_database_url,
        "http://localhost:9200": search_url,
        "redis://localhost:6379/0": private_redis.url,
    }
    text = PAGE.read_text()
    shown = [line for line in text.splitlines() if line.startswith('{"')]
    for written, real in places.items():
        assert written in text
        text = text.replace(written, real)
    page = tmp_path / "page.md"
    page.write_text(text)
    said: list[str] = []
    for paste in Shell(tmp_path, server).paste(page):
        check(PAGE.name, [paste])
        said += [line for line in paste.said.splitlines() if line.startswith('{"')]
        if "_search" in paste.block:
            private_redis.client().flushdb()  # What the next section is about.
    assert said == [*shown, *shown[:2]]
