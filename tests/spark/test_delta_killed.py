"""A projection on Delta, its driver killed at every point: nothing is lost, nothing doubled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from driftq.sinks import DeltaSink
from tests.harness import ServerProcess
from tests.spark import mortal_delta
from tests.spark.events import create, expected, found, history, mixed, send
from tests.spark.mortal_delta import NAME, POINTS
from tests.spark.projection_driver import PATIENCE_S, driver, last_words
from tests.support.waiting import wait_until


def kill_at(point: str, told: dict[str, Any], mark: Path) -> None:
    with driver(told | {"point": point}, {}, program=mortal_delta.__file__) as (run, log):
        wait_until(
            f"the projection is at: {point}",
            lambda: mark.exists() or run.poll() is not None,
            within_s=PATIENCE_S,
        )
        assert mark.exists(), last_words(log)


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
        kill_at(point, told | {"mark": str(mark)}, mark)
        positions = DeltaSink(told["delta"]).connect(NAME).positions()
        assert bool(positions) is (point == POINTS[-1])
    send(server, "events.lamps", arriving[len(POINTS) * size :])
    with driver(told | {"point": "never", "mark": ""}, {}, program=mortal_delta.__file__) as (run, log):
        assert run.wait(PATIENCE_S) == 0, last_words(log)
    model = DeltaSink(told["delta"]).connect(NAME)
    assert found(model) == expected(events)
    assert list(model.dead_letters()) == []
