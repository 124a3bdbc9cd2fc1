"""A projection's driver, killed with its process group at every point: nothing is lost, nothing doubled."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from driftq.sinks import PostgresSink, ReadModelSink, SqliteSink
from tests.harness import ServerProcess
from tests.services_postgres import postgres_database_url, postgres_url
from tests.spark import mortal_projection
from tests.spark.events import create, expected, found, history, mixed, send

__all__ = ["postgres_database_url", "postgres_url"]

DEATHS = [
    ("sqlite", "before write"),
    ("sqlite", "before offset commit"),
    ("sqlite", "after write"),  # And before PostgreSQL's write.
    ("postgres", "before offset commit"),
    ("postgres", "after write"),
]


def run_driver(told: dict[str, Any]) -> tuple[int, str]:
    """How it ended, and the last of what it said."""
    with tempfile.TemporaryFile() as log:  # A pipe would be held open by what outlives the driver.
        driver = subprocess.run(
            [sys.executable, mortal_projection.__file__, json.dumps(told)],
            start_new_session=True,
            stderr=log,
            timeout=300,
            check=False,
        )
        log.seek(0)
        return driver.returncode, log.read().decode(errors="replace")[-2_000:]


@pytest.mark.clause("X3", "Z6", "V1")
@pytest.mark.timeout(1200)
def test_killed_at_every_point_on_both_engines_the_read_models_are_whole(
    server: ServerProcess, url: str, tmp_path: Path, postgres_database_url: str
) -> None:
    create(server, "events.mortal")
    events = history(60, 10)
    arriving = mixed(events, seed=3)
    size = len(arriving) // len(DEATHS)
    told: dict[str, Any] = {
        "url": url,
        "data": str(tmp_path),
        "sqlite": f"{tmp_path}/rows.db",
        "postgres": postgres_database_url,
        "name": "mortal",
        "topic": "events.mortal",
        "batch_messages_max": size // 2,
    }
    for number, (engine, point) in enumerate(DEATHS):
        send(server, "events.mortal", arriving[number * size : (number + 1) * size])
        mark = tmp_path / f"death-{number}"
        ended, said = run_driver(told | {"engine": engine, "point": point, "mark": str(mark)})
        assert ended == -signal.SIGKILL, said
        assert mark.exists()
    send(server, "events.mortal", arriving[len(DEATHS) * size :])
    ended, said = run_driver(told | {"engine": "none", "point": "never", "mark": str(tmp_path / "alive")})
    assert ended == 0, said
    sinks: list[ReadModelSink] = [SqliteSink(told["sqlite"]), PostgresSink(postgres_database_url)]
    for sink in sinks:
        model = sink.connect("mortal")
        assert found(model) == expected(events)
        assert list(model.dead_letters()) == []
        model.close()
