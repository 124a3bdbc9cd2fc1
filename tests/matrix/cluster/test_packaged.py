"""Executors whose Python has nothing of DriftQ: the archive brings it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from driftq.pipeline.read_model import rows
from driftq.pipeline.spark.package import write_package
from tests.matrix.cluster.stage import ClusterStage
from tests.services_postgres import postgres_database_url, postgres_url
from tests.services_s3 import S3Server, s3_server
from tests.services_spark_cluster import SparkCluster, spark_cluster
from tests.spark.publishing import append_events

__all__ = ["postgres_database_url", "postgres_url", "s3_server", "spark_cluster"]

EVENTS = 200
AGGREGATES = 7
APP = """
from driftq.pipeline import App, Projection

app = App()
app.projection(Projection("newest", topic_pattern=r"events\\..*"))
"""


@pytest.mark.timeout(1_800)
@pytest.mark.clause("Z8", "Z1")
def test_a_bare_python_runs_the_tasks_with_what_the_archive_brings(
    tmp_path: Path, spark_cluster: SparkCluster, postgres_database_url: str, s3_server: S3Server
) -> None:
    bare = Path(sys.base_prefix, "bin", f"python{sys.version_info.major}.{sys.version_info.minor}")
    missing = subprocess.run([bare, "-c", "import msgspec"], capture_output=True, check=False)
    assert missing.returncode != 0, f"{bare} is not bare"
    archive = write_package(tmp_path / "driftq_libs.tar.gz")
    assert {"driftq", "msgspec", "pyarrow"} <= set(archive.distributions)
    assert not {"pyspark", "py4j"} & set(archive.distributions)
    stage = ClusterStage(
        tmp_path,
        spark_cluster,
        app=APP,
        database_url=postgres_database_url,
        s3=s3_server,
        settings={"PYSPARK_PYTHON": str(bare)},
        words=["--archive", str(archive.file)],
    )
    try:
        stage.start()
        append_events(stage.server, EVENTS, aggregates=AGGREGATES)
        stage.run("publisher", "projection")
        assert sum(row["sequence_number"] for row in rows(stage.options, "newest")) == EVENTS
    finally:
        stage.stop()
