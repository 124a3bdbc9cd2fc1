"""The store on OpenSearch."""

import pytest

from tests.services.opensearch.stores import SearchStoreSuite


@pytest.mark.clause("V2", "V2d", "V5")
class TestOpenSearchStore(SearchStoreSuite):
    """With the server of this folder."""
