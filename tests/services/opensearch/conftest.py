"""A store with names of its own on the shared server."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from driftq.sinks.opensearch import OpenSearchSink
from driftq.sinks.opensearch.store import OpenSearchStore
from tests.services_opensearch import prefix, private_search, search_url

__all__ = ["prefix", "private_search", "search_url"]

PROJECTION = "orders_by_id"
Open = Callable[[], OpenSearchStore]


@pytest.fixture
def sink(search_url: str, prefix: str) -> OpenSearchSink:
    return OpenSearchSink(search_url, prefix=prefix, replicas=0)


@pytest.fixture
def open_store(sink: OpenSearchSink) -> Iterator[Open]:
    """Opens one after the other, as several tasks would."""
    opened: list[OpenSearchStore] = []

    def open_one() -> OpenSearchStore:
        opened.append(sink.open_store(PROJECTION))
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store: Open) -> OpenSearchStore:
    return open_store()
