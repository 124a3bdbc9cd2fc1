"""A server that is overloaded, frozen, killed and restarted: nothing is lost, refused or brought back."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from driftq.errors import ReadModelUnavailable
from driftq.model import Aggregate
from driftq.sinks import Change
from driftq.sinks.opensearch import OpenSearchSink
from driftq.sinks.opensearch.connection import SearchConnection
from driftq.sinks.opensearch.store import OpenSearchStore
from tests.services_opensearch import SearchServer, http_json, start_search
from tests.support.waiting import wait_until

SMALL = {
    "indexing_pressure.memory.limit": "3mb",
    "thread_pool.write.size": "1",
    "thread_pool.write.queue_size": "1",
}


@pytest.fixture(scope="module")
def small() -> Iterator[SearchServer]:
    """A server that a few writers overload, and that tests may stop."""
    server = start_search(settings=SMALL)
    yield server
    server.remove()


@pytest.fixture
def place() -> str:
    return uuid.uuid4().hex


@pytest.fixture
def store(small: SearchServer, place: str) -> Iterator[OpenSearchStore]:
    store = opened(small)
    store.create_place(place)
    yield store
    store.close()


def opened(server: SearchServer, *, timeout_s: float = 30, retry_s: float = 60) -> OpenSearchStore:
    sink = OpenSearchSink(server.url, prefix="outage", replicas=0, timeout_s=timeout_s, retry_s=retry_s)
    return sink.open_store("orders")


def large(count: int, size: int, *, sequence: int = 1) -> list[Change]:
    state = json.dumps({"filling": "x" * size})
    return [Change("order", f"o-{at:05}", sequence, f"e-{sequence}", state) for at in range(count)]


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, bool]]:
    """Status, and whether items were refused for overload, of each bulk answer that the server gives."""
    seen: list[tuple[int, bool]] = []
    real = SearchConnection.call

    def watched(self: SearchConnection, method: str, path: str, **more: object) -> object:
        reply = real(self, method, path, **more)  # type: ignore[arg-type]
        if path.endswith("/_bulk"):
            seen.append((reply.status, '"status":429' in reply.text))
        return reply

    monkeypatch.setattr(SearchConnection, "call", watched)
    return seen


@pytest.mark.clause("V5", "V3", "V3c")
def test_a_whole_request_that_is_too_much_is_sent_in_smaller_ones(
    store: OpenSearchStore, place: str, answers: list[tuple[int, bool]]
) -> None:
    changes = large(40, 100_000)
    assert store.put(place, changes) == []
    assert 429 in {status for status, _ in answers}
    assert [each.aggregate_id for each in store.scan(place)] == [each.aggregate_id for each in changes]


@pytest.mark.clause("V5", "V3", "V3c")
def test_items_that_are_refused_inside_an_answer_are_sent_again(
    small: SearchServer, store: OpenSearchStore, place: str, answers: list[tuple[int, bool]]
) -> None:
    def write(writer: int) -> int:
        mine = opened(small)
        changes = [Change("order", f"{writer}-{at}", 1, "e", '{"a":1}') for at in range(1_000)]
        refused = mine.put(place, changes)
        mine.close()
        return len(refused)

    with ThreadPoolExecutor(12) as threads:
        assert sum(threads.map(write, range(12))) == 0
    assert (200, True) in answers
    assert sum(1 for _ in store.scan(place)) == 12_000


@pytest.mark.clause("V5", "V3", "V3c")
def test_an_overload_that_lasts_is_an_outage_and_refuses_nothing(
    small: SearchServer, store: OpenSearchStore, place: str
) -> None:
    impatient = opened(small, retry_s=0.5)
    with pytest.raises(ReadModelUnavailable, match="429"):
        impatient.put(place, large(1, 3_500_000))
    impatient.close()
    assert store.put(place, large(1, 10)) == []


@pytest.mark.clause("V5", "V3", "V3c")
def test_a_server_that_freezes_in_a_bulk_is_an_outage_and_its_late_write_changes_nothing(
    small: SearchServer, store: OpenSearchStore, place: str
) -> None:
    hasty = opened(small, timeout_s=2)
    small.freeze()
    try:
        with pytest.raises(ReadModelUnavailable):
            hasty.put(place, large(100, 1_000, sequence=1))
    finally:
        small.thaw()
    hasty.close()
    assert store.put(place, large(100, 1_000, sequence=2)) == []
    wait_until("the frozen request is done", lambda: _writes(small) == 0)
    assert {each.sequence_number for each in store.scan(place)} == {2}


def _writes(server: SearchServer) -> int:
    _, pools = http_json("GET", f"{server.url}/_cat/thread_pool/write?format=json&h=active,queue")
    return sum(int(pool["active"]) + int(pool["queue"]) for pool in pools)


@pytest.mark.clause("V5", "V3", "V3c", "K4")
@pytest.mark.timeout(600)
def test_killed_in_the_middle_of_bulks_it_has_every_answered_write_and_no_older_one_wins(
    small: SearchServer, store: OpenSearchStore, place: str
) -> None:
    gone = Aggregate("order", "gone")
    index = f"outage-orders--{place}"
    status, _ = http_json("PUT", f"{small.url}/{index}/_settings", {"index": {"gc_deletes": "0s"}})
    assert status == 200
    assert store.put(place, [Change(*gone, 5, "e-5", None)]) == []
    name = f"control-{place}"
    assert store.write_control(name, "0", expected=None)
    answered = 0
    some = threading.Event()

    def write() -> None:
        """Documents first, then the control text that says so, as a projection does."""
        nonlocal answered
        while True:
            assert store.put(place, large(200, 200, sequence=answered + 1)) == []
            version = store.read_control(name)
            assert version is not None
            assert store.write_control(name, str(answered + 1), expected=version.version)
            answered += 1
            if answered == 3:
                some.set()

    with ThreadPoolExecutor(1) as threads:
        writing = threads.submit(write)
        assert some.wait(120)
        small.kill()
        with pytest.raises(ReadModelUnavailable):
            writing.result(timeout=120)
    small.start()
    found = store.read_control(name)
    assert found is not None
    assert int(found.text) in (answered, answered + 1)
    sequences = {each.sequence_number for each in store.scan(place) if each.aggregate_id != "gone"}
    assert min(sequences) >= answered
    assert store.put(place, [Change(*gone, 4, "e-4", "{}"), *large(200, 200, sequence=1)]) == []
    assert store.get(place, [gone]) == {gone: Change(*gone, 5, "e-5", None)}
    assert {each.sequence_number for each in store.scan(place) if each.aggregate_id != "gone"} == sequences
