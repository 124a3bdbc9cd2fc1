"""What a Python process of Spark's has to load before it can do its share."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "module",
    ["source.events", "source.topic_readers", "sink.writers", "publisher.lane_task"],
)
def test_who_reads_or_sends_events_loads_no_sql_and_no_pandas(module: str) -> None:
    """There are several such processes for each driver, and each would take a second longer to start."""
    asked = f"import driftq.pipeline.{module}, sys; print(*sys.modules, sep='\\n')"
    loaded = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True).stdout
    assert not {"sqlalchemy", "psycopg", "pandas"} & set(loaded.splitlines())
