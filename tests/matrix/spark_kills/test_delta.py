"""A projection on Delta, its driver killed at every point: nothing is lost, nothing doubled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from driftq.sinks import DeltaSink
from tests.harness import ServerProcess
from tests.services.sinks import mortal_delta
from tests.services.sinks.killing import kill_at, run_to_the_end
from tests.services.sinks.mortal_delta import NAME, POINTS
from tests.spark.events import create, expected, found, history, mixed, send


@pytest.mark.clause("X3", "V8", "V10", "Z6", "V1")
@pytest.mark.timeout(1200)
def test_killed_at_every_point_the_delta_table_is_whole(
    server: ServerProcess, url: str, tmp_path: Path
) -> None:
    create(server, "events.lamps")
    events = history(60, 10)
    arriving = mixed(events, seed=5)
    size = len(arriving) // (len(POINTS) + 1)
    told: dict[str, Any] = {
        "url": url,
        "data": str(tmp_path),
        "delta": str(tmp_path / "delta"),
        "topic": "events.lamps",
        "batch_messages_max": size,
    }
    for number, point in enumerate(POINTS):
        send(server, "events.lamps", arriving[number * size : (number + 1) * size])
        mark = tmp_path / f"point-{number}"
        kill_at(point, told, mark, program=mortal_delta.__file__)
        positions = DeltaSink(told["delta"]).connect(NAME).positions()
        assert bool(positions) is (point == POINTS[-1])
    send(server, "events.lamps", arriving[len(POINTS) * size :])
    run_to_the_end(told, program=mortal_delta.__file__)
    model = DeltaSink(told["delta"]).connect(NAME)
    assert found(model) == expected(events)
    assert list(model.dead_letters()) == []
