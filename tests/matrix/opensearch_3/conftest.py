"""The stores and read models of tests/services/opensearch on OpenSearch 3."""

import pytest

from tests.services.opensearch.conftest import open_store, sink, store
from tests.services_opensearch import OPENSEARCH_3, prefix, shared_server_url

__all__ = ["open_store", "prefix", "sink", "store"]


@pytest.fixture(scope="session")
def search_url() -> str:
    """A server of our own: the one in the environment may be of any version."""
    return shared_server_url(OPENSEARCH_3)
