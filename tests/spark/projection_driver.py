"""Two projections in a driver of their own that is killed at a point: see mortal_projection.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from driftq.pipeline.runtime.processes import end_session
from driftq.sinks import PostgresSink, ReadModelSink, SqliteSink
from driftq.sinks.postgres import PostgresReadModel
from tests.conformance.sinks.staging import leftovers
from tests.harness import ServerProcess
from tests.spark import mortal_projection
from tests.spark.events import Event, create, expected, found, history, mixed, send
from tests.spark.mortal_projection import POINTS, TARGETS

PATIENCE_S = 600


@contextmanager
def driver(
    told: dict[str, Any], environ: Mapping[str, str], *, program: str = mortal_projection.__file__
) -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes]]]:
    """A driver and what it says; whatever is left of it at the end gets SIGKILL."""
    with tempfile.TemporaryFile() as log:  # A pipe would be held open by what outlives the driver.
        command = [sys.executable, program, json.dumps(told)]
        running = subprocess.Popen(command, start_new_session=True, stderr=log, env=os.environ | environ)
        try:
            yield running, log
        finally:
            end_session(running.pid)
            running.wait()


def last_words(log: IO[bytes]) -> str:
    log.seek(0)
    return log.read().decode(errors="replace")[-20_000:]


def kill_at(point: str, told: dict[str, Any], marks: dict[str, str], environ: Mapping[str, str]) -> None:
    """Let both projections come to this point, and kill everything."""
    with driver(told | {"point": point, "marks": marks}, environ) as (running, log):
        end = time.monotonic() + PATIENCE_S
        while not all(Path(mark).exists() for mark in marks.values()):
            assert running.poll() is None, last_words(log)
            assert time.monotonic() < end, last_words(log)
            time.sleep(0.05)


def run_to_the_end(told: dict[str, Any], environ: Mapping[str, str]) -> None:
    with driver(told | {"point": "never", "marks": dict.fromkeys(TARGETS, "")}, environ) as (running, log):
        assert running.wait(PATIENCE_S) == 0, last_words(log)


def play(
    told: dict[str, Any],
    arriving: Sequence[Event],
    send: Callable[[Sequence[Event]], None],
    *,
    environ: Mapping[str, str] | None = None,
    points: Sequence[str] = POINTS,
) -> None:
    """A kill at each of the points, after a part of the events was sent; then the rest, to the end."""
    environ, folder = environ or {}, told["data"]
    size = len(arriving) // (len(points) + 1)
    told = told | {"batch_messages_max": size}
    for number, point in enumerate(points):
        send(arriving[number * size : (number + 1) * size])
        kill_at(point, told, {name: f"{folder}/{name}-{number}" for name in TARGETS}, environ)
    send(arriving[len(points) * size :])
    run_to_the_end(told, environ)


def play_on_both_engines(
    server: ServerProcess, folder: Path, postgres_url: str, *, points: Sequence[str]
) -> None:
    """Two projections, each to a file and to a database, through these kills."""
    create(server, "events.mortal")
    events = history(60, 10)
    told: dict[str, Any] = {
        "url": f"http://127.0.0.1:{server.port}",
        "data": str(folder),
        "sqlite": {name: f"{folder}/{name}.db" for name in TARGETS},  # A file has one writer at a time.
        "postgres": postgres_url,
        "topic": "events.mortal",
    }
    play(told, mixed(events, seed=3), lambda some: send(server, "events.mortal", some), points=points)
    assert_whole(told, events)


def assert_whole(told: dict[str, Any], events: Sequence[Event]) -> None:
    """Every read model is that of ordered single delivery."""
    for name in TARGETS:
        sinks: list[ReadModelSink] = [SqliteSink(told["sqlite"][name]), PostgresSink(told["postgres"])]
        for sink in sinks:
            model = sink.connect(name)
            assert found(model) == expected(events)
            assert list(model.dead_letters()) == []
            if isinstance(model, PostgresReadModel):
                assert leftovers(model) == 0
            model.close()
