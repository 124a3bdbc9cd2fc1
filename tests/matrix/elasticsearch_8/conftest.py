"""The stores and read models of tests/services/opensearch on Elasticsearch 8."""

from tests.services.opensearch.conftest import open_store, sink, store
from tests.services_elasticsearch import prefix, search_url

__all__ = ["open_store", "prefix", "search_url", "sink", "store"]
