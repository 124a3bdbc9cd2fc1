"""The shipped suite on OpenSearch.

Its stories with an interruption at every call make an index for each of them. They take minutes, so they run
in the parts of the test matrix for other versions.
"""

import pytest

from driftq.testing.sinks import DocumentStoresSuite, StagedSinkSuite


@pytest.mark.clause("V1", "V2", "V2d", "V5", "V9", "K4")
class TestOpenSearch(StagedSinkSuite, DocumentStoresSuite):
    """With the sink of this folder."""
