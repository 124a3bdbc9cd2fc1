"""Projections' driver, killed with all its processes at every point: nothing is lost, nothing doubled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.harness import ServerProcess
from tests.services_postgres import postgres_database_url, postgres_url
from tests.spark.events import create, history, mixed, send
from tests.spark.mortal_projection import TARGETS
from tests.spark.projection_driver import assert_whole, play

__all__ = ["postgres_database_url", "postgres_url"]


@pytest.mark.clause("X3", "Z6", "V1", "V10")
@pytest.mark.timeout(1200)
def test_killed_at_every_point_on_both_engines_the_read_models_are_whole(
    server: ServerProcess, url: str, tmp_path: Path, postgres_database_url: str
) -> None:
    """Points in the first of two targets: after its write, the second has not been written to."""
    create(server, "events.mortal")
    events = history(60, 10)
    told: dict[str, Any] = {
        "url": url,
        "data": str(tmp_path),
        "sqlite": {name: f"{tmp_path}/{name}.db" for name in TARGETS},  # A file has one writer at a time.
        "postgres": postgres_database_url,
        "topic": "events.mortal",
    }
    play(told, mixed(events, seed=3), lambda some: send(server, "events.mortal", some))
    assert_whole(told, events)
