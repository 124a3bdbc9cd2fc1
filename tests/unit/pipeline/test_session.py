"""What Spark is told when a session is opened."""

import pytest

from driftq.pipeline.spark.session import session_settings
from driftq.settings import load_settings


@pytest.mark.clause("Z1")
def test_a_driver_on_one_machine_has_more_memory_than_spark_gives_it() -> None:
    options = load_settings(environ={}).pipeline()
    told = session_settings(options, master="local[2]")["spark.driver.memory"]
    assert 1_024 <= int(told.removesuffix("m")) <= 4_096
    assert "spark.driver.memory" not in session_settings(options, master="spark://somewhere:7077")
