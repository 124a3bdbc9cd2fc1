"""The projection's driver, killed at every point while it writes to OpenSearch."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from driftq.pipeline import Projection
from driftq.settings import load_settings
from driftq.sinks.opensearch import OpenSearchSink
from tests.acceptance.pipeline.running import PipelineCommands
from tests.harness import ServerProcess
from tests.services.opensearch import mortal_app
from tests.services.opensearch.mortal_app import NAME, POINTS, TOPIC
from tests.spark.events import create, expected, found, history, mixed, send
from tests.support.killing import kill_tree
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KILLED_WITHIN_S = 300.0
RUN = ("run", "projection", "--name", NAME, "--once", "--app", str(mortal_app.__file__))


@pytest.mark.clause("X3", "X9", "X9b", "Z6", "V1", "V5", "V10")
@pytest.mark.timeout(1200)
def test_killed_before_its_write_after_it_and_before_the_offset_commit(
    spark: SparkSession, tmp_path: Path, search_url: str, prefix: str
) -> None:
    sink = OpenSearchSink(search_url, prefix, replicas=0)
    events = history(40, 10)
    arriving = mixed(events, seed=5)
    size = len(arriving) // (len(POINTS) + 1)
    with ServerProcess(tmp_path / "data") as server:
        create(server, TOPIC)
        environ = {"MORTAL_SERVER": f"{search_url}/{prefix}", "MORTAL_BATCH": str(size)}
        for number, point in enumerate(POINTS):
            send(server, TOPIC, arriving[number * size : (number + 1) * size])
            mark = tmp_path / f"mark-{number}"
            _kill_at(mark, server, tmp_path, environ | {"MORTAL_POINT": point, "MORTAL_MARK": str(mark)})
        send(server, TOPIC, arriving[len(POINTS) * size :])
        options = load_settings().pipeline(url=_url(server), data=str(tmp_path / "pipeline"))
        Projection(NAME, topic=TOPIC, sink=sink).run(spark, options=options, once=True)
    model = sink.connect(NAME)
    assert found(model) == expected(events)
    assert list(model.dead_letters()) == []
    model.close()


def _pipeline(server: ServerProcess, folder: Path, environ: dict[str, str]) -> PipelineCommands:
    return PipelineCommands(_url(server), folder / "pipeline", environ)


def _url(server: ServerProcess) -> str:
    return f"http://127.0.0.1:{server.port}"


def _kill_at(mark: Path, server: ServerProcess, folder: Path, environ: dict[str, str]) -> None:
    said = folder / f"{mark.name}.txt"
    started = _pipeline(server, folder, environ).start(*RUN, errors=said)
    try:
        end = time.monotonic() + KILLED_WITHIN_S
        wait_until(
            f"it is at {environ['MORTAL_POINT']}",
            lambda: mark.exists() or started.poll() is not None or time.monotonic() > end,
            within_s=KILLED_WITHIN_S + 10,
        )
        assert mark.exists(), said.read_text()[-10_000:]
    finally:
        kill_tree(started)
