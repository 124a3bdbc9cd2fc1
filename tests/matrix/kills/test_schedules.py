"""Schedules and a server that is killed: each due time fires exactly once.

The same story with a thousand schedules and twenty kills is among the tests of services.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.schedule_story import run_story


@pytest.mark.clause("J15", "W3")
def test_schedules_fire_each_due_time_once_through_kills(tmp_path: Path) -> None:
    run_story(tmp_path, schedules=100, kills=4)
