"""Writer and sealer killed between every two steps and started again: nothing lost, doubled, renumbered."""

import json
import subprocess
import sys
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.eventstore import mortal
from tests.support.thorough import kinds

SENT = [command.event.event_id for commands in mortal.STORY for command in commands]


@pytest.fixture(params=kinds(["postgres"], thorough=["sqlite"]))
def plan(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """SQLite with a folder, PostgreSQL with S3; FRESH becomes another name for each step."""
    if request.param == "sqlite":
        return {
            "folder": str(tmp_path),
            "database_url": f"sqlite:///{tmp_path}/FRESH.db",
            "objects_url": f"{tmp_path.as_uri()}/FRESH",
            "access": {},
        }
    server = request.getfixturevalue("s3_server")
    return {
        "folder": str(tmp_path),
        "database_url": request.getfixturevalue("postgres_database_url"),
        "objects_url": f"{server.fresh_url()}/FRESH",
        "access": {
            "endpoint": server.endpoint,
            "region": server.region,
            "access_key_id": server.access_key_id,
            "secret_access_key": server.secret_access_key,
        },
    }


@pytest.mark.clause("S2", "S4", "S6", "S8")
def test_killed_at_any_step_and_started_again(plan: dict[str, Any]) -> None:
    ran = subprocess.run(
        [sys.executable, mortal.__file__, json.dumps(plan)], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    runs = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [run["survived"] for run in runs] == [False] * (len(runs) - 1) + [True]
    assert len(runs) > 40, "the story has become too short to prove anything"
    for run in runs:
        check(run)


def check(run: dict[str, Any]) -> None:
    """All promises after one kill; the step is in the message of a failure."""
    step = run["step"]
    numbers = {event_id: number for _, event_id, _, number in run["log"]}
    assert sorted(numbers) == sorted(SENT), f"step {step}: lost"
    assert len(run["log"]) == len(SENT), f"step {step}: doubled"
    assert run["payloads"] == [event_id for _, event_id, _, _ in run["log"]], f"step {step}: mixed up"
    assert dict(run["first"]).items() <= numbers.items(), f"step {step}: an acknowledged event was changed"
    assert dict(run["second"]) == numbers, f"step {step}: the retry was told something else"
    for aggregate in ("a", "b"):
        own = [number for _, _, whose, number in run["log"] if whose == aggregate]
        assert own == list(range(1, len(own) + 1)), f"step {step}: numbers of {aggregate}"
    assert [position for position, *_ in run["log"]] == list(range(1, len(SENT) + 1)), (
        f"step {step}: positions"
    )
    assert list(chain(*run["segments"])) == list(range(1, len(SENT) + 1)), f"step {step}: segments"
    listed = list(chain(*run["listed"]))
    assert listed == list(range(1, len(listed) + 1)), f"step {step}: a listing after the kill"
    assert run["segments"][: len(run["listed"])] == run["listed"], f"step {step}: a segment was changed"
