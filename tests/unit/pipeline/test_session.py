"""What Spark is told when a session is opened."""

from pathlib import Path
from zipfile import ZipFile

import pyspark
import pytest

from driftq.pipeline.spark.session import needs_connector, session_settings
from driftq.settings import load_settings


@pytest.mark.clause("Z1")
def test_a_driver_on_one_machine_has_more_memory_than_spark_gives_it() -> None:
    options = load_settings(environ={}).pipeline()
    told = session_settings(options, master="local[2]")["spark.driver.memory"]
    assert 1_024 <= int(told.removesuffix("m")) <= 4_096
    assert "spark.driver.memory" not in session_settings(options, master="spark://somewhere:7077")


@pytest.mark.clause("Z1", "Z7")
def test_local_checkpoints_are_written_by_a_class_that_this_spark_has() -> None:
    """Checkpoints of a cluster may be anywhere: there Spark chooses."""
    name = "spark.sql.streaming.checkpointFileManagerClass"
    options = load_settings(environ={}).pipeline()
    told = session_settings(options, master="local[2]")[name]
    jars = Path(pyspark.__file__).parent.glob("jars/spark-sql_*.jar")
    names = {entry for jar in jars for entry in ZipFile(jar).namelist()}
    assert told.replace(".", "/") + ".class" in names
    assert name not in session_settings(options, master="spark://somewhere:7077")


@pytest.mark.parametrize(
    ("transport", "reads_kafka", "needs"),
    [
        ("kafka", None, True),
        ("driftq", None, False),
        ("kafka", False, False),
        ("driftq", True, True),
    ],
)
def test_a_session_has_kafkas_connector_where_kafka_is_the_transport_unless_told_otherwise(
    transport: str, reads_kafka: bool | None, needs: bool
) -> None:
    environ = {"DRIFTQ_TRANSPORT": transport, "DRIFTQ_KAFKA_BOOTSTRAP": "127.0.0.1:1"}
    options = load_settings(environ=environ).pipeline()
    assert needs_connector(options, reads_kafka=reads_kafka) is needs
