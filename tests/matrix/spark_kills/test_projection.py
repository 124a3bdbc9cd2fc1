"""Projections' driver, killed with all its processes at every point: nothing is lost, nothing doubled."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness import ServerProcess
from tests.services_postgres import postgres_database_url, postgres_url
from tests.spark.mortal_projection import POINTS
from tests.spark.projection_driver import play_on_both_engines

__all__ = ["postgres_database_url", "postgres_url"]


@pytest.mark.clause("X3", "Z6", "V1", "V10")
@pytest.mark.timeout(1200)
def test_killed_at_every_point_on_both_engines_the_read_models_are_whole(
    server: ServerProcess, tmp_path: Path, postgres_database_url: str
) -> None:
    """Points in the first of two targets: after its write, the second has not been written to."""
    play_on_both_engines(server, tmp_path, postgres_database_url, points=POINTS)
