"""Projections' driver, killed with all its processes at every point: nothing is lost, nothing doubled."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from driftq.pipeline.runtime.processes import end_session
from driftq.sinks import PostgresSink, ReadModelSink, SqliteSink
from tests.harness import ServerProcess
from tests.services_postgres import postgres_database_url, postgres_url
from tests.spark import mortal_projection
from tests.spark.events import create, expected, found, history, mixed, send
from tests.spark.mortal_projection import POINTS, TARGETS

__all__ = ["postgres_database_url", "postgres_url"]

PATIENCE_S = 240


@contextmanager
def driver(told: dict[str, Any]) -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes]]]:
    """A driver and what it says; whatever is left of it at the end gets SIGKILL."""
    with tempfile.TemporaryFile() as log:  # A pipe would be held open by what outlives the driver.
        command = [sys.executable, mortal_projection.__file__, json.dumps(told)]
        running = subprocess.Popen(command, start_new_session=True, stderr=log)
        try:
            yield running, log
        finally:
            end_session(running.pid)
            running.wait()


def last_words(log: IO[bytes]) -> str:
    log.seek(0)
    return log.read().decode(errors="replace")[-20_000:]


def kill_at(point: str, told: dict[str, Any], marks: dict[str, str]) -> None:
    """Let both projections come to this point, and kill everything."""
    with driver(told | {"point": point, "marks": marks}) as (running, log):
        end = time.monotonic() + PATIENCE_S
        while not all(Path(mark).exists() for mark in marks.values()):
            assert running.poll() is None, last_words(log)
            assert time.monotonic() < end, last_words(log)
            time.sleep(0.05)


def run_to_the_end(told: dict[str, Any]) -> None:
    with driver(told | {"point": "never", "marks": dict.fromkeys(TARGETS, "")}) as (running, log):
        assert running.wait(PATIENCE_S) == 0, last_words(log)


@pytest.mark.clause("X3", "Z6", "V1")
@pytest.mark.timeout(1200)
def test_killed_at_every_point_on_both_engines_the_read_models_are_whole(
    server: ServerProcess, url: str, tmp_path: Path, postgres_database_url: str
) -> None:
    """Points in the first of two targets: after its write, the second has not been written to."""
    create(server, "events.mortal")
    events = history(60, 10)
    arriving = mixed(events, seed=3)
    size = len(arriving) // (len(POINTS) + 1)
    told: dict[str, Any] = {
        "url": url,
        "data": str(tmp_path),
        "sqlite": {name: f"{tmp_path}/{name}.db" for name in TARGETS},  # A file has one writer at a time.
        "postgres": postgres_database_url,
        "topic": "events.mortal",
        "batch_messages_max": size // 2,
    }
    for number, point in enumerate(POINTS):
        send(server, "events.mortal", arriving[number * size : (number + 1) * size])
        kill_at(point, told, {name: f"{tmp_path}/{name}-{number}" for name in TARGETS})
    send(server, "events.mortal", arriving[len(POINTS) * size :])
    run_to_the_end(told)
    for name in TARGETS:
        sinks: list[ReadModelSink] = [SqliteSink(told["sqlite"][name]), PostgresSink(postgres_database_url)]
        for sink in sinks:
            model = sink.connect(name)
            assert found(model) == expected(events)
            assert list(model.dead_letters()) == []
            model.close()
