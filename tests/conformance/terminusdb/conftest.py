"""A store on a fresh database, and a second hand on it, as another process would have."""

from collections.abc import Callable

import pytest

from driftq.sinks.terminusdb import TerminusSink
from driftq.sinks.terminusdb.store import TerminusStore
from tests.services_terminusdb import private_terminus, terminus_database_url, terminus_url

__all__ = ["private_terminus", "terminus_database_url", "terminus_url"]

OpenStore = Callable[[], TerminusStore]


@pytest.fixture
def open_store(terminus_database_url: str) -> OpenStore:
    return lambda: TerminusSink(terminus_database_url).open_store("order_totals")


@pytest.fixture
def store(open_store: OpenStore) -> TerminusStore:
    return open_store()
