"""A store on a fresh database, and what tests read back."""

import json
from collections.abc import Callable

import pytest

from driftq.sinks import Change
from driftq.sinks.terminusdb import TerminusSink
from driftq.sinks.terminusdb.store import TerminusStore
from tests.services_terminusdb import private_terminus, terminus_database_url, terminus_url

__all__ = ["private_terminus", "terminus_database_url", "terminus_url"]

OpenStore = Callable[[], TerminusStore]
NAME = "order_totals"


@pytest.fixture
def open_store(terminus_database_url: str) -> OpenStore:
    """A second one is as another process would have it."""
    return lambda: TerminusSink(terminus_database_url).open_store(NAME)


@pytest.fixture
def store(open_store: OpenStore) -> TerminusStore:
    return open_store()


def change(sequence: int, *, of: str = "o-1", deleted: bool = False) -> Change:
    """The state says which sequence it is from."""
    state = None if deleted else json.dumps({"at": sequence})
    return Change("order", of, sequence, f"{of}/{sequence}", state)


def readers_see(url: str) -> dict[str, int]:
    """The sequences that a reader sees who knows the projection's name and nothing else."""
    store = TerminusSink(url).open_store(NAME)
    if not store._places._exists(NAME):
        return {}
    documents = store._server.read(NAME, {"type": "OrderTotals"})
    return {document["aggregate_id"]: document["sequence"] for document in documents}
