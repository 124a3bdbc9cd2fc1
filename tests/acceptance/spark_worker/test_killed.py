"""Spark drivers killed with all their processes, at each point between claim and mark, on both engines."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.spark_worker.theatre import Theatre, play
from tests.harness import ServerProcess
from tests.services_postgres import postgres_database_url, postgres_url

__all__ = ["postgres_database_url", "postgres_url"]


@pytest.mark.timeout(900)
@pytest.mark.clause("X2", "K2", "K4", "K6", "Z6")
def test_drivers_killed_at_each_point_leave_one_effect_each_or_ask(
    tmp_path: Path, postgres_database_url: str
) -> None:
    with ServerProcess(tmp_path / "data") as server:
        play(Theatre(server, tmp_path, postgres_database_url))
