"""Drivers of a projection that are killed, with all their processes, where they leave a mark."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tests.spark.projection_driver import PATIENCE_S, driver, last_words
from tests.support.waiting import wait_until

ENVIRON = {"PYTHONPATH": os.getcwd()}


def kill_at(point: str, told: dict[str, Any], mark: Path, *, program: str) -> None:
    """Let the driver come to this point, and kill it."""
    told = told | {"point": point, "mark": str(mark)}
    with driver(told, ENVIRON, program=program) as (running, log):
        wait_until(
            f"the driver comes to its point: {point}",
            lambda: mark.exists() or running.poll() is not None,
            within_s=PATIENCE_S,
        )
        assert mark.exists(), last_words(log)


def run_to_the_end(told: dict[str, Any], *, program: str) -> None:
    with driver(told | {"point": "never", "mark": ""}, ENVIRON, program=program) as (running, log):
        assert running.wait(PATIENCE_S) == 0, last_words(log)
