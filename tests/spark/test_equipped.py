"""What a session lacks is told in a sentence: DriftQ in its Python workers, Kafka's connector in its JVM."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest

from driftq.errors import SparkUnusable
from driftq.pipeline import open_session, register
from driftq.pipeline.spark.equipped import runs_here
from driftq.pipeline.transport import TopicSubscription, open_transport
from driftq.settings import load_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def interpreter_without_driftq(folder: Path) -> Path:
    """This Python with the standard library and Spark's own modules, and nothing that was installed."""
    libraries = Path(pyspark.__file__).parent / "python" / "lib"
    path = os.pathsep.join(str(file) for file in libraries.glob("*.zip"))
    script = folder / "bare-python"
    script.write_text(f'#!/bin/sh\nPYTHONPATH="{path}" exec "{sys.executable}" -S "$@"\n')
    script.chmod(0o755)
    return script


@pytest.mark.clause("Z1")
def test_workers_that_cannot_import_driftq_are_refused_in_a_sentence(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(spark)
    bare = interpreter_without_driftq(tmp_path)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(bare))
    with pytest.raises(SparkUnusable) as refused:
        register(spark)
    assert str(refused.value).startswith("Spark's Python workers cannot import driftq: install driftq where")
    assert "PYSPARK_PYTHON" in str(refused.value)


def test_the_interpreter_of_this_process_is_known_by_its_other_names(tmp_path: Path) -> None:
    assert runs_here(sys.executable)
    assert not runs_here(str(interpreter_without_driftq(tmp_path)))
    assert not runs_here(str(tmp_path / "nowhere"))


@pytest.mark.clause("Z4")
def test_a_session_without_kafkas_connector_is_refused_before_spark_says_so(
    spark: SparkSession, tmp_path: Path
) -> None:
    environ = {
        "DRIFTQ_TRANSPORT": "kafka",
        "DRIFTQ_KAFKA_BOOTSTRAP": "127.0.0.1:1",
        "DRIFTQ_SPARK_KAFKA_JARS": "provided",
    }
    options = load_settings(environ=environ).pipeline(data=str(tmp_path))
    assert open_session(options) is spark, "a job may not read from Kafka at all"
    with pytest.raises(SparkUnusable) as refused:
        open_session(options, reads_kafka=True)
    assert "it was opened without Spark's Kafka connector: open it with" in str(refused.value)
    assert "DRIFTQ_SPARK_KAFKA_JARS" in str(refused.value)
    topics = TopicSubscription(topics=("orders",))
    with pytest.raises(SparkUnusable, match="was opened without Spark's Kafka connector"):
        open_transport(options).stream(spark, topics, reader="r", starting={}, messages_max=1)
