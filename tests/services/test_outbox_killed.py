"""20,000 rows of an outbox, applications and relays killed on the way: what arrives is what was committed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.outbox.story import run_story
from tests.harness import ServerProcess
from tests.services_postgres import own_database_url, postgres_url

__all__ = ["own_database_url", "postgres_url"]

ROWS = 20_000
STEPS = 12


@pytest.mark.clause("J21")
@pytest.mark.parametrize("kind", ["postgresql", "sqlite"])
def test_each_of_20_000_rows_arrives_once(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    sqlite = f"sqlite:///{tmp_path / 'shop.db'}"
    database = sqlite if kind == "sqlite" else str(request.getfixturevalue("own_database_url"))
    with ServerProcess(tmp_path / "data", "--fsync", "interval") as server:
        run_story(database, server, rows=ROWS, steps=STEPS)
