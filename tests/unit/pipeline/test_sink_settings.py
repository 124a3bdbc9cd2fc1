"""What the pipeline's settings add to a sink that leaves it out."""

from pathlib import Path

import pytest

from driftq.pipeline.projection.definition import Projection
from driftq.settings import load_settings
from driftq.sinks import DeltaSink, SqliteSink


@pytest.mark.clause("V8")
def test_a_delta_sink_without_an_endpoint_gets_that_of_the_settings(tmp_path: Path) -> None:
    settings = load_settings(environ={"DRIFTQ_S3_ENDPOINT": "http://127.0.0.1:9000"})
    options = settings.pipeline(url="http://127.0.0.1:8080", data=str(tmp_path))
    own = DeltaSink("delta+s3://bucket/b", s3_endpoint="http://127.0.0.1:9001")
    other = SqliteSink("rows.db")
    projection = Projection("orders", topic="t", sinks=[DeltaSink("delta+s3://bucket/a"), own, other])
    assert projection.targets(options) == (
        DeltaSink("delta+s3://bucket/a", s3_endpoint="http://127.0.0.1:9000"),
        own,
        other,
    )
