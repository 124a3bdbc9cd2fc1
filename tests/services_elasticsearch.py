"""A real Elasticsearch for the tests: see services_opensearch.py, which starts it.

DRIFTQ_TEST_ELASTICSEARCH_URL names a server where indexes may be made.
"""

import os

import pytest

from tests.services_opensearch import ELASTICSEARCH_8, prefix, shared_server_url

__all__ = ["prefix", "search_url"]


@pytest.fixture(scope="session")
def search_url() -> str:
    """The server that the tests of a run share."""
    return os.environ.get("DRIFTQ_TEST_ELASTICSEARCH_URL") or shared_server_url(ELASTICSEARCH_8)
