"""Delta passes the suite of every sink, in a folder and in a bucket."""

from __future__ import annotations

import pytest

from driftq.sinks import DeltaSink
from driftq.testing.sinks import SinkSuite
from tests.conformance.delta.buckets import sink_in
from tests.services_s3 import S3Server

_CLAUSES = pytest.mark.clause("V1", "V2", "V3", "V4", "V8", "X4", "X7", "K8", "K10", "Z6")


@_CLAUSES
class TestDeltaInAFolder(SinkSuite):
    """With the fixture `sink` of this folder."""


@_CLAUSES
class TestDeltaInABucket(SinkSuite):
    @pytest.fixture
    def sink(self, s3_server: S3Server) -> DeltaSink:
        return sink_in(s3_server)
