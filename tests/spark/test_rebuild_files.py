"""A rebuild where the server's folder is on the driver's machine, and not where the tasks run."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from driftq.pipeline import Projection, ordered
from driftq.pipeline.projection.rebuild import RebuildInput
from driftq.pipeline.projection.topic_history import topic_history
from driftq.settings import load_settings
from driftq.tables.reader import read_table
from tests.harness import ServerProcess
from tests.spark.topics import create, fill
from tests.spark.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOPIC = "rebuilt-afar"
MESSAGES = 700


@pytest.mark.clause("Z8", "V4")
def test_tasks_on_other_machines_read_the_history_from_the_server(
    spark: SparkSession, sealing: ServerProcess, tmp_path: Path
) -> None:
    create(sealing, TOPIC, partitions=2, table=True)
    fill(sealing, TOPIC, MESSAGES)
    wait_until(lambda: read_table(sealing.data / "tables" / TOPIC) is not None, "the table")
    seen = tmp_path / "data"
    shutil.copytree(sealing.data / "tables", seen / "tables")
    shutil.copy(sealing.data / "address", seen / "address")
    options = load_settings(environ={}).pipeline(url=f"http://127.0.0.1:{sealing.port}", data=str(seen))
    projection = Projection("afar", topic=TOPIC, fold=ordered(lambda state, event: None))
    near, far = (topic_history(projection, options, tasks_see_files=here) for here in (True, False))
    shutil.rmtree(seen)  # From now on it is as on the machines of a cluster.
    assert far.positions == near.positions
    assert read(far, spark) == MESSAGES
    with pytest.raises(Exception, match="PATH_NOT_FOUND"):
        read(near, spark)


def read(history: RebuildInput, spark: SparkSession) -> int:
    return sum(piece.load(spark).count() for piece in history.pieces)
