"""Documents in a real Redis: the newest wins, keys never collide, and a dropped place stays dropped."""

import random
import uuid
from dataclasses import replace
from zlib import crc32

import pytest
import redis
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from driftq.errors import InvalidArgument, ReadModelUnavailable
from driftq.model import Aggregate
from driftq.sinks import Application, Change
from driftq.sinks.documents import Note
from driftq.sinks.redis import RedisSink
from driftq.sinks.redis.keys import BUCKETS, document_name
from driftq.sinks.redis.store import RedisStore
from driftq.testing.sinks.cast import change
from tests.conformance.redis.conftest import NAME, PLACE, OpenStore
from tests.services_redis import RedisServer
from tests.support.waiting import wait_until

ORDER = Aggregate("order", "o-1")
OTHER_PLACE = "b" * 32


def client_of(sink: RedisSink) -> redis.Redis:
    return redis.Redis.from_url(sink.url)


def unused_id() -> str:
    return uuid.uuid4().hex


def keys_of(sink: RedisSink) -> set[bytes]:
    with client_of(sink) as client:
        return set(client.scan_iter(match=f"{sink.prefix}:*", count=1000))


# The guard


@pytest.mark.clause("V6", "V2", "V2f")
def test_the_newest_sequence_wins_and_a_delete_leaves_its_guard(store: RedisStore) -> None:
    for each in (change(2), change(1), change(4, deleted=True), change(3)):
        assert store.put(PLACE, [each]) == []
    assert store.get(PLACE, [ORDER]) == {ORDER: change(4, deleted=True)}
    store.put(PLACE, [change(5)])
    assert store.get(PLACE, [ORDER]) == {ORDER: change(5)}


@pytest.mark.clause("V6", "V1")
def test_of_two_documents_with_one_sequence_the_first_stays(store: RedisStore) -> None:
    store.put(PLACE, [change(1)])
    store.put(PLACE, [change(1)._replace(event_id="another", state='"other"')])
    assert store.get(PLACE, [ORDER]) == {ORDER: change(1)}


@pytest.mark.clause("V6", "V2", "V2f")
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    near=st.sampled_from([0, 9, 99, 2**53, 2**63, 10**30]),
    steps=st.lists(st.integers(0, 3), min_size=2, max_size=6),
)
@example(near=2**53, steps=[0, 1])
def test_sequences_compare_as_python_compares_them(store: RedisStore, near: int, steps: list[int]) -> None:
    """Lua's own numbers take 2^53 and 2^53 + 1 for one."""
    id = unused_id()
    sequences = [near + step for step in steps]
    for each in sequences:
        store.put(PLACE, [change(each, of=id)])
    assert store.get(PLACE, [Aggregate("order", id)]) == {
        Aggregate("order", id): change(max(sequences), of=id)
    }


@pytest.mark.clause("V6", "V1")
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_shuffled_and_repeated_writes_converge(store: RedisStore, data: st.DataObject) -> None:
    newest = {id: change(3, of=id, deleted=data.draw(st.booleans())) for id in ("a", "b", "c")}
    history = [change(n, of=id) for id in newest for n in (1, 2)] + list(newest.values())
    arriving = data.draw(st.permutations(history + history))
    place = unused_id()
    store.create_place(place)
    try:
        for each in arriving:
            store.put(place, [each])
        assert list(store.scan(place)) == list(newest.values())
    finally:
        store.drop_place(place)


# Keys

AWKWARD = ["", " ", "a", "A", "a:b", "a", ":", "a%3Ab", "%", "%25", "{", "}", "{}", "a}b{", "\n", "\0", "é",
           "e\u0301", "日本", "\U0001f980", "index:a", "d:a", "order", "x" * 3000]  # fmt: skip


@pytest.mark.clause("V6", "X7", "S9")
def test_no_two_aggregates_share_a_key_and_a_scan_is_in_order(store: RedisStore) -> None:
    aggregates = {Aggregate(kind, id) for kind in AWKWARD for id in AWKWARD}
    changes = [Change(kind, id, 1, f"{kind}/{id}", '{"is":"it"}') for kind, id in aggregates]
    assert store.put(PLACE, changes) == []
    assert store.get(PLACE, list(aggregates)) == {Aggregate(*each[:2]): each for each in changes}
    assert list(store.scan(PLACE)) == sorted(changes)


@pytest.mark.clause("V6")
def test_a_scan_of_many_pages_sees_what_was_stored_before(store: RedisStore) -> None:
    """Documents that arrive meanwhile may be in it or not, and never replace one."""
    changes = [change(1, of=f"o-{number:05}") for number in range(40_000)]
    for at in range(0, len(changes), 1_000):
        store.put(PLACE, changes[at : at + 1_000])
    found = []
    for number, each in enumerate(store.scan(PLACE)):
        found.append(each)
        if number % 10_000 == 0:
            store.put(PLACE, [change(1, of=f"o-{number:05}-late"), change(2, of="o-39999")])
    early = [each for each in found if not each.aggregate_id.endswith("-late")]
    assert early == [*changes[:-1], change(2, of="o-39999")]


@pytest.mark.clause("V6", "V2", "V2f")
def test_what_redis_cannot_hold_is_refused_and_the_rest_is_stored(
    open_store: OpenStore, private_redis: RedisServer
) -> None:
    with private_redis.client() as client:
        client.config_set("proto-max-bulk-len", "1mb")
    store = open_store(RedisSink(private_redis.url))
    large = change(1, of="large")._replace(state='"' + "x" * (1 << 20) + '"')
    torn = change(1, of="torn \ud800")
    refused = store.put(PLACE, [large, change(1), torn])
    assert [each.change for each in refused] == [large, torn]
    assert "1048576" in refused[0].error
    assert "UTF-8" in refused[1].error
    assert list(store.scan(PLACE)) == [change(1)]
    assert store.get(PLACE, [Aggregate("order", "torn \ud800"), ORDER]) == {ORDER: change(1)}


# Places


@pytest.mark.clause("V6", "V4", "K4")
def test_a_late_run_cannot_write_to_a_place_that_was_dropped(
    store: RedisStore, open_store: OpenStore, redis_sink: RedisSink
) -> None:
    late = open_store()
    store.put(PLACE, [change(number, of=f"o-{number}") for number in range(1, 2_000)])
    store.put_notes(PLACE, [Note("waiting", f"g-{number}", f"n-{number}", "{}") for number in range(1_200)])
    before = keys_of(redis_sink)
    store.drop_place(PLACE)
    assert len(before) > 2_000
    assert keys_of(redis_sink) == set()
    with pytest.raises(ReadModelUnavailable, match="no place"):
        late.put(PLACE, [change(9)])
    with pytest.raises(ReadModelUnavailable, match="no place"):
        late.put_notes(PLACE, [Note("waiting", "g", "n", "{}")])
    assert (list(late.scan(PLACE)), list(late.notes(PLACE, "waiting"))) == ([], [])
    late.publish_place(PLACE)
    assert keys_of(redis_sink) == set()
    store.drop_place(PLACE)


@pytest.mark.clause("V6", "V4")
def test_readers_find_the_place_by_one_key(store: RedisStore, redis_sink: RedisSink) -> None:
    store.create_place(OTHER_PLACE)
    store.put(PLACE, [change(1)])
    store.put(OTHER_PLACE, [change(2)])
    seen = []
    with client_of(redis_sink) as client:
        for place in (PLACE, OTHER_PLACE, "c" * 32):  # The last one does not exist and changes nothing.
            store.publish_place(place)
            live = client.get(f"{redis_sink.prefix}:{{{NAME}}}:live")
            assert isinstance(live, bytes)
            seen.append(live.decode())
            bucket = crc32(b"order:o-1") % 64  # As the guide tells readers of any language.
            key = f"{redis_sink.prefix}:{{{NAME}:{seen[-1]}:{bucket:02}}}:d:order:o-1"
            assert client.hget(key, "d") == (b'{"at": 1}' if place == PLACE else b'{"at": 2}')
    assert seen == [PLACE, OTHER_PLACE, OTHER_PLACE]
    store.drop_place(OTHER_PLACE)
    assert list(store.scan(PLACE)) == [change(1)]


@pytest.mark.clause("V6", "K4")
def test_a_control_text_is_compared_and_set(store: RedisStore, open_store: OpenStore) -> None:
    other = open_store()
    assert store.read_control("control") is None
    assert store.write_control("control", "one", expected=None) is True
    assert other.write_control("control", "two", expected=None) is False
    first = other.read_control("control")
    assert first is not None
    assert first.text == "one"
    assert other.write_control("control", "two", expected=first.version) is True
    assert store.write_control("control", "three", expected=first.version) is False
    assert store.write_control("control", "one", expected=None) is False
    assert store.read_control("other") is None


@pytest.mark.clause("V6", "K4")
def test_a_flushed_server_never_repeats_the_version_of_a_control_text(
    open_store: OpenStore, private_redis: RedisServer
) -> None:
    """Else the run before the flush could move positions without its documents."""
    late, fresh = (open_store(RedisSink(private_redis.url)) for _ in range(2))
    late.write_control("control", "one", expected=None)
    known = late.read_control("control")
    assert known is not None
    with private_redis.client() as client:
        client.flushall()
    with pytest.raises(ReadModelUnavailable, match="no place"):
        late.put(PLACE, [change(1)])
    fresh.create_place(PLACE)
    assert fresh.write_control("control", "one", expected=None) is True
    assert late.write_control("control", "two", expected=known.version) is False


# Notes


@pytest.mark.clause("V6")
def test_notes_are_found_by_kind_and_group_in_the_order_of_their_ids(store: RedisStore) -> None:
    notes = [Note("waiting", f"g-{n % 3}", f"n-{n:04}", f'{{"n":{n}}}') for n in range(1_700)]
    other = Note("marks", "g-1", "n-0001", '"a mark"')
    shuffled = [*notes, other]
    random.Random(5).shuffle(shuffled)
    for at in range(0, len(shuffled), 1_000):
        store.put_notes(PLACE, shuffled[at : at + 1_000])
    assert list(store.notes(PLACE, "waiting")) == notes
    assert list(store.notes(PLACE, "waiting", groups=["g-2", "g-0", "g-9"])) == [
        note for note in notes if note.group != "g-1"
    ]
    assert list(store.notes(PLACE, "marks")) == [other]
    store.remove_notes(PLACE, "waiting", [note.id for note in notes if note.group == "g-0"] + ["unknown"])
    assert list(store.notes(PLACE, "waiting", groups=["g-0"])) == []
    assert list(store.notes(PLACE, "waiting")) == [note for note in notes if note.group != "g-0"]
    assert list(store.notes(PLACE, "marks")) == [other]


@pytest.mark.clause("V6")
def test_a_note_that_moves_to_another_group_is_in_one_only(store: RedisStore, redis_sink: RedisSink) -> None:
    first = Note("waiting", "g-1", "n-1", "1")
    moved = first._replace(group="g-2", text="2")
    store.put_notes(PLACE, [first])
    store.put_notes(PLACE, [moved])
    assert list(store.notes(PLACE, "waiting", groups=["g-1", "g-2"])) == [moved]
    assert list(store.notes(PLACE, "waiting", groups=["g-1"])) == []
    store.remove_notes(PLACE, "waiting", ["n-1"])
    store.drop_place(PLACE)
    assert keys_of(redis_sink) == set()


# Lifetimes


@pytest.mark.clause("V6", "V1")
def test_a_lifetime_removes_the_text_and_never_the_guard(
    open_store: OpenStore, redis_sink: RedisSink
) -> None:
    store = open_store(replace(redis_sink, ttl_ms=50))
    store.put(PLACE, [change(3), change(1, of="o-2", deleted=True)])
    gone = change(3)._replace(state=None)
    wait_until("the text is gone", lambda: store.get(PLACE, [ORDER]) == {ORDER: gone})
    store.put(PLACE, [change(2), change(3)])
    assert list(store.scan(PLACE)) == [gone, change(1, of="o-2", deleted=True)]
    lasting = open_store(replace(redis_sink, ttl_ms=60_000))
    lasting.put(PLACE, [change(4)])
    assert lasting.get(PLACE, [ORDER]) == {ORDER: change(4)}
    lasting.put(PLACE, [change(5, deleted=True)])
    assert lasting.get(PLACE, [ORDER]) == {ORDER: change(5, deleted=True)}
    lasting.put(PLACE, [change(6)])
    forever = open_store()
    assert forever.get(PLACE, [ORDER]) == {ORDER: change(6)}
    forever.put(PLACE, [change(7)])
    assert lasting.get(PLACE, [ORDER]) == {ORDER: change(7)}
    forever.drop_place(PLACE)
    assert keys_of(redis_sink) == set()


@pytest.mark.clause("V6")
def test_guards_with_a_lifetime_leave_nothing_behind(open_store: OpenStore, redis_sink: RedisSink) -> None:
    store = open_store(replace(redis_sink, guard_ttl_ms=60))
    store.put(PLACE, [change(2, of=f"o-{n}", deleted=True) for n in range(200)] + [change(1, of="stays")])
    store.put(PLACE, [change(3, of="o-7")])  # It is no guard any more.
    kept = [change(3, of="o-7"), change(1, of="stays")]
    wait_until("the guards are gone", lambda: list(store.scan(PLACE)) == kept)

    def ids() -> set[bytes]:
        with client_of(redis_sink) as client:
            indexes = [key for key in keys_of(redis_sink) if key.endswith(b":index:order")]
            return {id for key in indexes for id in client.zrange(key, 0, -1)}

    assert len(ids()) == 201
    everywhere = {document_name(Aggregate("order", f"new-{n}")).bucket: f"new-{n}" for n in range(2_000)}
    assert len(everywhere) == BUCKETS
    store.put(PLACE, [change(1, of=id) for id in everywhere.values()])  # Each bucket is swept by a write.
    assert ids() == {b"o-7", b"stays"} | {id.encode() for id in everywhere.values()}


@pytest.mark.clause("V6")
def test_a_text_with_a_lifetime_cannot_serve_ordered_folds(redis_sink: RedisSink) -> None:
    assert redis_sink.capabilities.ordered
    assert not replace(redis_sink, ttl_ms=1_000).capabilities.ordered
    assert not redis_sink.capabilities.atomic


@pytest.mark.clause("V6", "V4")
def test_a_read_model_that_outslept_its_guards_asks_for_a_rebuild(redis_sink: RedisSink) -> None:
    sink = replace(redis_sink, guard_ttl_ms=3_600_000)
    model = sink.connect(NAME)
    epoch = model.take_over()
    model.apply(Application(changes=[change(2, deleted=True)]), epoch)
    assert model.take_over().epoch == 2
    with client_of(sink) as client:
        for mark in [key for key in keys_of(sink) if key.endswith(b"}:place")]:
            client.decrby(mark, 3_600_001)  # As if all of it had happened earlier.
    fresh = model.beside()
    rebuilding = None
    for _ in range(2):  # The first rebuild is never finished, and does not help.
        with pytest.raises(InvalidArgument, match="driftq pipeline run rebuild --name orders_by_id"):
            model.take_over()
        rebuilding = fresh.take_over()
    assert rebuilding is not None
    fresh.apply(Application(changes=[change(2, of="o-2")]), rebuilding)
    model.swap(rebuilding)
    assert model.take_over().generation == 2
    model.close()
