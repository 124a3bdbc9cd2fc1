"""The primitives of the store on a real server: what read models in a search server rest on."""

from __future__ import annotations

import json
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from driftq.errors import ReadModelUnavailable
from driftq.model import Aggregate
from driftq.sinks import Change
from driftq.sinks.documents.port import Note
from driftq.sinks.opensearch import OpenSearchSink
from driftq.sinks.opensearch.documents import ID_BYTES_MAX, document_id
from driftq.sinks.opensearch.store import OpenSearchStore
from driftq.testing.sinks.cast import change
from tests.services.opensearch.conftest import PROJECTION, Open
from tests.services_opensearch import http_json

NAMES = (
    "a",
    "A",
    "a ",
    "é",
    "e\u0301",
    "",
    "a\nb",
    "a/b",
    "der/a",
    "/a",
    "%2F",
    "😀",
    "x" * 600,
    "x" * 599 + "y",
    "_id",
)


class SearchStoreSuite:
    """For every server; a module has the fixtures of this folder."""

    @pytest.fixture
    def place(self, store: OpenSearchStore) -> str:
        name = uuid.uuid4().hex
        store.create_place(name)
        return name

    @pytest.mark.clause("V2", "V2d", "V5")
    def test_an_older_or_equal_sequence_changes_nothing(self, store: OpenSearchStore, place: str) -> None:
        assert store.put(place, [change(2), change(7, of="o-2", deleted=True)]) == []
        late = [Change("order", "o-1", 2, "another", "{}"), change(6, of="o-2")]
        assert store.put(place, late) == []
        asked = [Aggregate("order", "o-1"), Aggregate("order", "o-2"), Aggregate("order", "o-3")]
        assert store.get(place, asked) == {asked[0]: change(2), asked[1]: change(7, of="o-2", deleted=True)}

    @pytest.mark.clause("V5", "X7")
    def test_no_two_aggregates_share_a_document_and_scans_go_by_type_and_id(
        self, store: OpenSearchStore, place: str
    ) -> None:
        changes = [
            change(1, of=name, kind=kind)
            for kind in ("order", "Order", "or", "or/der", "or%2Fder")
            for name in NAMES
        ]
        assert store.put(place, changes) == []
        in_order = sorted(
            changes, key=lambda each: (each.aggregate_type.encode(), each.aggregate_id.encode())
        )
        assert list(store.scan(place)) == in_order
        asked = [Aggregate(each.aggregate_type, each.aggregate_id) for each in changes]
        assert list(store.get(place, asked).values()) == changes

    def test_ids_of_documents_fit_and_are_distinct(self) -> None:
        pairs = [(kind, name) for kind in ("a", "a/", "a%2F", "%sha256", "é" * 300) for name in NAMES]
        ids = [document_id(*pair) for pair in pairs]
        assert len(set(ids)) == len(pairs)
        assert max(len(each.encode()) for each in ids) <= ID_BYTES_MAX

    @pytest.mark.clause("V5")
    def test_a_state_is_read_as_it_was_written(self, store: OpenSearchStore, place: str) -> None:
        states = [
            '{"b":1.50,"a":[],"b2":1e2}',
            '{ "spaced" : true }',
            ' {"lead": 1}',
            '{\n "lines": {"x": 1}\n}',
            "null",
            "1.50",
            '"\\u0000\\t"',
            "[1, 2]",
            "{}",
            json.dumps({"long": "x" * 50_000}),
        ]
        changes = [Change("order", f"o-{at}", 1, "e", state) for at, state in enumerate(states)]
        assert store.put(place, changes) == []
        found = store.get(place, [Aggregate("order", f"o-{at}") for at in range(len(states))])
        assert [each.state for each in found.values()] == states
        assert [each.state for each in store.scan(place)] == states

    @pytest.mark.clause("V5", "V3", "V3a")
    def test_what_the_server_or_utf_8_cannot_take_is_refused_alone(
        self, store: OpenSearchStore, place: str
    ) -> None:
        store.put(place, [Change("order", "first", 1, "e", '{"note":"text"}')])
        odd = {
            "conflict": '{"note":{"now":"an object"}}',
            "no-name": '{"":1}',
            "no-json": '{"a":',
            "deep": "[" * 50_000 + "]" * 50_000,
            "sur\ud800rogate": "{}",
            "surrogate": '{"a":"\ud800"}',
            "x" * 40_000: "{}",
        }
        good = [change(1, of=f"good-{at}") for at in range(5)]
        mixed = [*good[:2], *(Change("order", name, 1, "e", state) for name, state in odd.items()), *good[2:]]
        refused = store.put(place, mixed)
        assert {each.change.aggregate_id for each in refused} == set(odd)
        assert all(each.error for each in refused)
        assert {each.aggregate_id for each in store.scan(place)} == {
            "first",
            *(each.aggregate_id for each in good),
        }

    @pytest.mark.clause("V5")
    def test_readers_search_states_by_the_alias_and_see_no_tombstones(
        self, store: OpenSearchStore, place: str, search_url: str, prefix: str
    ) -> None:
        store.put(place, [change(1), change(2, of="o-2"), change(3, of="o-3", deleted=True)])
        store.publish_place(place)
        query = {"query": {"range": {"state.at": {"gte": 2}}}}
        _, found = http_json("POST", f"{search_url}/{prefix}-{PROJECTION}/_search", query)
        assert [hit["_source"]["aggregate_id"] for hit in found["hits"]["hits"]] == ["o-2"]
        _, every = http_json("GET", f"{search_url}/{prefix}-{PROJECTION}/_count")
        assert every["count"] == 2
        status, _ = http_json("POST", f"{search_url}/{prefix}-{PROJECTION}/_doc", {"state": {}})
        assert status == 400  # An alias for readers.

    @pytest.mark.clause("V5", "V4")
    def test_a_swap_leaves_readers_no_gap(self, store: OpenSearchStore, search_url: str, prefix: str) -> None:
        places = [uuid.uuid4().hex for _ in range(6)]
        for at, place in enumerate(places):
            store.create_place(place)
            store.put(
                place, [Change("order", f"o-{each}", 1, "e", json.dumps({"place": at})) for each in range(7)]
            )
        store.publish_place(places[0])
        done = threading.Event()

        def read() -> set[tuple[int, ...]]:
            seen = set()
            while not done.is_set():
                status, found = http_json("GET", f"{search_url}/{prefix}-{PROJECTION}/_search?size=10")
                assert status == 200
                seen.add(tuple(hit["_source"]["state"]["place"] for hit in found["hits"]["hits"]))
            return seen

        with ThreadPoolExecutor(2) as threads:
            readers = [threads.submit(read) for _ in range(2)]
            try:
                for place in places[1:]:
                    store.publish_place(place)
                    store.publish_place(place)
            finally:
                done.set()
            seen = set().union(*(reader.result() for reader in readers))
        assert seen <= {(at,) * 7 for at in range(len(places))}

    @pytest.mark.clause("V5")
    def test_a_dropped_place_stays_dropped_whatever_comes_late(
        self, store: OpenSearchStore, place: str, search_url: str, prefix: str
    ) -> None:
        store.put(place, [change(1)])
        store.put_notes(place, [Note("waiting", "g", "n", "{}")])
        for _ in range(2):
            store.drop_place(place)
        for write in (
            lambda: store.put(place, [change(2)]),
            lambda: store.put_notes(place, [Note("waiting", "g", "n", "{}")]),
        ):
            with pytest.raises(ReadModelUnavailable, match="no such index"):
                write()
        store.publish_place(place)
        assert list(store.scan(place)) == []
        assert list(store.notes(place, "waiting")) == []
        assert http_json("GET", f"{search_url}/_cat/indices/{prefix}*?format=json") == (200, [])

    @pytest.mark.clause("V5")
    def test_creating_a_place_again_changes_nothing(self, store: OpenSearchStore, place: str) -> None:
        store.put(place, [change(1)])
        store.create_place(place)
        assert list(store.scan(place)) == [change(1)]

    @pytest.mark.clause("K4", "V5")
    def test_of_writers_of_one_control_text_one_wins(self, open_store: Open) -> None:
        stores = [open_store() for _ in range(4)]
        assert stores[0].read_control("live") is None
        with ThreadPoolExecutor(4) as threads:
            for turn in range(5):
                found = stores[0].read_control("live")
                expected = None if found is None else found.version
                won = list(
                    threads.map(
                        lambda at, turn=turn, expected=expected: stores[at].write_control(
                            "live", f"{turn} {at}", expected=expected
                        ),
                        range(4),
                    )
                )
                assert won.count(True) == 1
                now = stores[1].read_control("live")
                assert now is not None
                assert now.text == f"{turn} {won.index(True)}"
                assert not stores[2].write_control("live", "stale", expected=expected)

    def test_notes_are_found_by_kind_and_group_in_order_and_replaced_by_id(
        self, store: OpenSearchStore, place: str
    ) -> None:
        made = [Note("waiting", f"g-{at % 3}", f"n-{at:04}", json.dumps(at)) for at in range(250)]
        store.put_notes(place, made[::-1])
        store.put_notes(place, [Note("dead", "g-1", "n-0001", "other"), made[4]._replace(text="later")])
        made[4] = made[4]._replace(text="later")
        assert list(store.notes(place, "waiting")) == made
        assert list(store.notes(place, "waiting", groups=["g-1", "g-2"])) == [
            n for n in made if n.group != "g-0"
        ]
        assert list(store.notes(place, "waiting", groups=[])) == []
        store.remove_notes(place, "waiting", [each.id for each in made[10:]] + ["unknown"])
        assert list(store.notes(place, "waiting")) == made[:10]
        assert [note.text for note in store.notes(place, "dead")] == ["other"]

    def test_a_scan_of_many_pages_sees_all_that_was_stored_before_it(
        self, store: OpenSearchStore, place: str
    ) -> None:
        changes = [change(1, of=f"o-{at:05}") for at in range(2_500)]
        assert store.put(place, changes) == []
        scanned = store.scan(place)
        first = next(scanned)
        store.put(place, [change(2, of="o-02400"), change(1, of="a-new")])
        assert [each.aggregate_id for each in (first, *scanned)] == [each.aggregate_id for each in changes]

    @pytest.mark.clause("V5")
    def test_a_mapping_of_the_users_own_decides_what_is_searched(
        self, sink: OpenSearchSink, search_url: str
    ) -> None:
        mapping = {"dynamic": False, "properties": {"placed_at": {"type": "date"}}}
        store = OpenSearchSink(search_url, sink.prefix, mapping=mapping, replicas=0).open_store(PROJECTION)
        place = uuid.uuid4().hex
        store.create_place(place)
        states = [
            '{"placed_at":"2026-01-02","note":1}',
            '{"placed_at":"no date"}',
            '{"note":{"any":"thing"}}',
        ]
        changes = [Change("order", f"o-{at}", 1, "e", state) for at, state in enumerate(states)]
        assert [each.change for each in store.put(place, changes)] == [changes[1]]
        store.close()
