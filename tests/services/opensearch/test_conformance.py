"""The shipped suite on OpenSearch."""

import pytest

from driftq.testing.sinks import DocumentSinkSuite


@pytest.mark.clause("V1", "V2", "V2d", "V5", "V9", "K4")
class TestOpenSearch(DocumentSinkSuite):
    """With the sink of this folder."""
