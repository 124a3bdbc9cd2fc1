"""The whole shipped suite, and the primitives of the store, on OpenSearch 3."""

import pytest

from driftq.testing.sinks import DocumentSinkSuite
from tests.services.opensearch.stores import SearchStoreSuite


@pytest.mark.clause("V2", "V2d", "V5", "V1", "V9")
@pytest.mark.timeout(600)
class TestOpenSearch3(DocumentSinkSuite):
    pass


@pytest.mark.clause("V2", "V2d", "V5")
class TestOpenSearch3Store(SearchStoreSuite):
    pass
