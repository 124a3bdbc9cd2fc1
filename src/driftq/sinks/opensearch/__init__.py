"""Read models in OpenSearch 2 and newer, and in Elasticsearch 8 and newer."""

from driftq.sinks.opensearch.sink import OpenSearchSink

__all__ = ["OpenSearchSink"]
