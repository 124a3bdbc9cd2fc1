"""The shipped suite, on Redis or Valkey."""

import pytest

from driftq.sinks.redis import RedisSink
from driftq.testing.sinks import DocumentSinkSuite


@pytest.mark.clause(
    "V1", "V2", "V2f", "V3", "V3a", "V3b", "V3c", "V4", "V6", "V9", "V10", "K8", "K10", "X4", "X7", "Z6"
)
class TestRedisSink(DocumentSinkSuite):
    @pytest.fixture
    def sink(self, redis_sink: RedisSink) -> RedisSink:
        return redis_sink
