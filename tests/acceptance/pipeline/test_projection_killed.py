"""Projections' driver, killed with its processes between write and commit; all points are in the matrix."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness import ServerProcess
from tests.services_postgres import postgres_database_url, postgres_url
from tests.spark.projection_driver import play_on_both_engines

__all__ = ["postgres_database_url", "postgres_url"]


@pytest.mark.clause("Z6", "V1", "V10")
@pytest.mark.timeout(1200)
def test_killed_before_the_commit_of_the_position_on_both_engines_the_read_models_are_whole(
    tmp_path: Path, postgres_database_url: str
) -> None:
    with ServerProcess(tmp_path / "data") as server:
        play_on_both_engines(server, tmp_path, postgres_database_url, points=["before offset commit"])
