"""A projection into Redis whose driver is killed with all its processes at every point."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from driftq.pipeline.runtime.processes import end_session
from driftq.sinks.redis import RedisSink
from tests.harness import ServerProcess
from tests.services_redis import redis_sink
from tests.spark import mortal_documents
from tests.spark.events import create, expected, found, history, mixed, send
from tests.spark.mortal_documents import POINTS
from tests.spark.projection_driver import PATIENCE_S, last_words
from tests.support.waiting import wait_until

__all__ = ["redis_sink"]

NAME = "mortal_lights"
TOPIC = "events.mortal_redis"


@contextmanager
def driver(told: dict[str, Any]) -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes]]]:
    """A driver and what it says; whatever is left of it at the end gets SIGKILL."""
    with tempfile.TemporaryFile() as log:  # A pipe would be held open by what outlives the driver.
        command = [sys.executable, mortal_documents.__file__, json.dumps(told)]
        running = subprocess.Popen(
            command, start_new_session=True, stderr=log, env=os.environ | {"PYTHONPATH": os.getcwd()}
        )
        try:
            yield running, log
        finally:
            end_session(running.pid)
            running.wait()


def kill_at(point: str, told: dict[str, Any], mark: Path) -> None:
    with driver(told | {"point": point, "mark": str(mark)}) as (running, log):

        def has_come() -> bool:
            assert running.poll() is None, last_words(log)
            return mark.exists()

        wait_until(f"the driver comes to its point: {point}", has_come, within_s=PATIENCE_S)


@pytest.mark.clause("X3", "X9", "Z6", "V1", "V6", "V10")
@pytest.mark.timeout(1200)
def test_killed_at_every_point_the_read_model_in_redis_is_whole(
    server: ServerProcess, url: str, tmp_path: Path, redis_sink: RedisSink
) -> None:
    create(server, TOPIC)
    events = history(60, 10)
    arriving = mixed(events, seed=7)
    size = len(arriving) // (len(POINTS) + 1)
    told: dict[str, Any] = {
        "url": url,
        "data": str(tmp_path),
        "redis": redis_sink.url,
        "prefix": redis_sink.prefix,
        "name": NAME,
        "topic": TOPIC,
        "batch_messages_max": size,
    }
    model = redis_sink.connect(NAME)
    for number, point in enumerate(POINTS):
        send(server, TOPIC, arriving[number * size : (number + 1) * size])
        before = model.positions()
        kill_at(point, told, tmp_path / f"mark-{number}")
        assert model.positions() == before  # Nothing counts before the last step.
    send(server, TOPIC, arriving[len(POINTS) * size :])
    with driver(told | {"point": "never", "mark": ""}) as (running, log):
        assert running.wait(PATIENCE_S) == 0, last_words(log)
    assert found(model) == expected(events)
    assert list(model.dead_letters()) == []
    model.close()
