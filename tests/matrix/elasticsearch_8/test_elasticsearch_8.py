"""The whole shipped suite, and the primitives of the store, on Elasticsearch 8."""

import pytest

from driftq.testing.sinks import DocumentSinkSuite
from tests.services.opensearch.stores import SearchStoreSuite


@pytest.mark.clause("V2", "V2e", "V5", "V1", "V9")
@pytest.mark.timeout(600)
class TestElasticsearch8(DocumentSinkSuite):
    pass


@pytest.mark.clause("V2", "V2e", "V5")
class TestElasticsearch8Store(SearchStoreSuite):
    pass
