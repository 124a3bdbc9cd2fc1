"""A projection into Redis whose driver is killed with all its processes at every point."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from driftq.sinks.redis import RedisSink
from tests.harness import ServerProcess
from tests.services.sinks import mortal_documents
from tests.services.sinks.killing import kill_at, run_to_the_end
from tests.services.sinks.mortal_documents import POINTS
from tests.services_redis import redis_sink
from tests.spark.events import create, expected, found, history, mixed, send

__all__ = ["redis_sink"]

NAME = "mortal_lights"
TOPIC = "events.mortal_redis"


@pytest.mark.clause("X3", "X9", "X9b", "Z6", "V1", "V6", "V10")
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
        kill_at(point, told, tmp_path / f"mark-{number}", program=mortal_documents.__file__)
        assert model.positions() == before  # Nothing counts before the last step.
    send(server, TOPIC, arriving[len(POINTS) * size :])
    run_to_the_end(told, program=mortal_documents.__file__)
    assert found(model) == expected(events)
    assert list(model.dead_letters()) == []
    model.close()
