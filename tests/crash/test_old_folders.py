"""A folder that an older version left behind opens, says what it said then, and goes on."""

import json
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.crash.old_folder import COMMITTED, FOLDERS, GROUP, KEYED, LONG_MS, OWNER, PENDING, views
from tests.harness import ServerProcess
from tests.support.shifted_clock import ShiftedClock

VERSIONS = sorted(path.stem for path in FOLDERS.glob("*.json"))


@pytest.fixture(scope="module", params=VERSIONS)
def then(request: pytest.FixtureRequest) -> dict[str, Any]:
    """What the older server answered before it was killed, and when."""
    remembered: dict[str, Any] = json.loads((FOLDERS / f"{request.param}.json").read_text())
    return {"version": request.param, **remembered}


@pytest.fixture
def reopened(then: dict[str, Any], tmp_path: Path) -> Iterator[ServerProcess]:
    """The current code on the old folder, a second after the old server was killed."""
    with tarfile.open(FOLDERS / f"{then['version']}.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    clock = ShiftedClock(tmp_path / "clock")
    clock.set(int(then["at"] / 1000 - time.time()) + 1)
    with ServerProcess(tmp_path / "data", env=clock.env) as server:
        yield server


def missing(old: Any, new: Any, where: str = "") -> list[str]:
    """What the old answer has and the new one has not; the new one may say more."""
    if isinstance(old, dict) and isinstance(new, dict):
        return [
            line
            for name, value in old.items()
            for line in (missing(value, new[name], f"{where}.{name}") if name in new else [f"{where}.{name}"])
        ]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = enumerate(zip(old, new, strict=True))
        return [line for slot, (one, other) in pairs for line in missing(one, other, f"{where}[{slot}]")]
    return [] if old == new else [f"{where}: {old!r} became {new!r}"]


@pytest.mark.clause("O6", "W2", "W3")
def test_an_old_folder_says_what_it_said_then(reopened: ServerProcess, then: dict[str, Any]) -> None:
    now = views(reopened.client())
    assert not [line for path, old in then["views"].items() for line in missing(old, now[path], path)]


@pytest.mark.clause("O6", "I2", "I6", "G5")
def test_work_that_an_old_server_began_is_finished(reopened: ServerProcess) -> None:
    """Keys, effects, leases and jobs that were under way: whoever holds them goes on."""
    client = reopened.client()
    assert client.post("/v1/produce", KEYED).body["duplicate"] is True
    held = {"owner": "another", "lease_ms": LONG_MS}
    committed = client.post("/v1/idempotency/begin", {**COMMITTED, **held}).body
    assert (committed["outcome"], committed["result"]) == ("already_committed", {"paid": 12})
    assert client.post("/v1/idempotency/begin", {**PENDING, **held}).body["outcome"] == "held"
    place = {"topic": "mail", "group": GROUP, "partition": 0, "owner": OWNER}
    assert client.post("/v1/ack", {**place, "offset": 2}).status == 204
    [job] = client.get("/v1/jobs", queue="mail", state="in_flight").body["jobs"]
    assert client.post(f"/v1/jobs/{job['job_id']}/complete", {"token": 3}).status == 204


@pytest.mark.clause("O6", "A3")
def test_what_an_old_group_has_not_settled_is_delivered(reopened: ServerProcess) -> None:
    """The message that was nacked before the kill, the redriven one, and the one behind the snapshot."""
    taken = reopened.stream("orders", GROUP, "worker-2", lease_ms=LONG_MS).take(3)
    values = {delivery["value"] for delivery in taken}
    assert "after the snapshot" in values
    assert {delivery["attempts"] for delivery in taken} == {1, 2}
