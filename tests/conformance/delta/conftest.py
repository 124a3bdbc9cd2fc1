"""A read model in Delta tables, in a folder of its own."""

from pathlib import Path

import pytest

from driftq.sinks import DeltaSink
from driftq.sinks.delta.model import DeltaReadModel
from tests.services_s3 import s3_server

__all__ = ["s3_server"]

NAME = "orders_by_id"


@pytest.fixture
def sink(tmp_path: Path) -> DeltaSink:
    return DeltaSink(str(tmp_path))


@pytest.fixture
def model(sink: DeltaSink) -> DeltaReadModel:
    return sink.connect(NAME)
