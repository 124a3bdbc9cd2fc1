"""A sink of one's own: the example passes every suite, by the way that its page shows."""

import os
from pathlib import Path

import pytest

from driftq.testing.sinks import DocumentSinkSuite
from examples.custom_sink import KeyValueSink


@pytest.mark.clause("V1", "V3", "V3a", "V3b", "V3c", "V4", "V9", "V10", "K8", "K10", "X4", "X7", "Z6")
class TestKeyValueSink(DocumentSinkSuite):
    @pytest.fixture
    def sink(self, tmp_path: Path) -> KeyValueSink:
        return KeyValueSink(os.fspath(tmp_path))
