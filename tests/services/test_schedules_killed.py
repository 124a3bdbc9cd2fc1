"""A thousand schedules and a server that is killed twenty times: each due time fires exactly once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.schedule_story import run_story


@pytest.mark.clause("J15", "W3")
def test_a_thousand_schedules_fire_each_due_time_once_through_twenty_kills(tmp_path: Path) -> None:
    run_story(tmp_path, schedules=1_000, kills=20)
