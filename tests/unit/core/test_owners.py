"""Owners in the core: set once, kept in records and snapshots, found again in folders that know none."""

from __future__ import annotations

import msgspec
import pytest

from driftq.core.decide import decide_topic
from driftq.core.decide.owners import OwnedName, decide_first_use, decide_owner, owner_of
from driftq.core.evolve.fold import evolve
from driftq.core.jobs.records import JobsEnqueued, JobTerms
from driftq.core.owners import OwnedKind, OwnerSet
from driftq.core.records import Record, TopicCreated, decode_records, encode_record
from driftq.core.snapshot.state import dump_state, load_state
from driftq.core.state import State
from driftq.errors import AggregateTypeNotFound, NotFound, OwnedByAnother, QueueNotFound, TopicNotFound
from driftq.model import TopicOptions
from driftq.model.options.limits import Limits
from driftq.testing.canonical import canonical, differences

pytestmark = pytest.mark.clause("Y3")

MAIL = OwnedName(OwnedKind.QUEUE, "mail")
ORDER = OwnedName(OwnedKind.AGGREGATE_TYPE, "order")


@pytest.fixture
def state() -> State:
    return State(Limits())


def fold(state: State, *records: Record | None) -> None:
    for record in records:
        assert record is not None
        ((decoded, _),) = decode_records(memoryview(encode_record(record)))
        evolve(state, decoded, segment=1, blob_at=0)


def create(state: State, name: str, tenant: str = "", *, alone: bool = False) -> Record | None:
    options = TopicOptions()
    return decide_topic(state, name, partitions=1, options=options, now=1, tenant=tenant, alone=alone)


def test_the_first_use_sets_the_owner_and_a_second_changes_nothing(state: State) -> None:
    records = decide_first_use(state, [MAIL, ORDER, MAIL], tenant="acme", now=5)
    assert [(record.kind, record.name) for record in records] == [(2, "mail"), (3, "order")]
    fold(state, *records)
    assert owner_of(state, *MAIL) == owner_of(state, *ORDER) == "acme"
    assert decide_first_use(state, [MAIL, ORDER], tenant="acme", now=6) == []


@pytest.mark.parametrize(("thing", "error"), [(MAIL, QueueNotFound), (ORDER, AggregateTypeNotFound)])
def test_what_another_tenant_owns_does_not_exist(
    state: State, thing: OwnedName, error: type[NotFound]
) -> None:
    fold(state, *decide_first_use(state, [thing], tenant="acme", now=5))
    other = OwnedName(thing.kind, "other")
    with pytest.raises(error):
        decide_first_use(state, [other, thing], tenant="globex", now=6)
    assert owner_of(state, *other) is None


def test_a_queue_with_jobs_and_without_an_owner_cannot_be_taken(state: State) -> None:
    jobs_topic = TopicCreated(at=1, topic=1, name="~jobs", partitions=1)
    fold(state, jobs_topic, JobsEnqueued(at=1, jobs=[JobTerms(0, "mail", 5, 1, 3, 0, 0)]))
    with pytest.raises(QueueNotFound):
        decide_first_use(state, [MAIL], tenant="acme", now=5)
    fold(state, decide_owner(state, MAIL, tenant="acme", now=6))
    assert decide_first_use(state, [MAIL], tenant="acme", now=7) == []


def test_an_operator_gives_only_what_nobody_owns(state: State) -> None:
    fold(state, decide_owner(state, MAIL, tenant="acme", now=5))
    assert decide_owner(state, MAIL, tenant="acme", now=6) is None
    with pytest.raises(OwnedByAnother) as refused:
        decide_owner(state, MAIL, tenant="globex", now=7)
    assert (refused.value.name, refused.value.tenant) == ("mail", "acme")


def test_a_topic_is_given_together_with_its_dead_letters(state: State) -> None:
    fold(state, create(state, "orders"))
    fold(state, TopicCreated(at=1, topic=2, name="dlq.orders", partitions=1))
    fold(state, create(state, "orders", "acme"))
    assert {topic.tenant for topic in state.topics.values()} == {"acme"}
    assert create(state, "orders", "acme") is None
    with pytest.raises(OwnedByAnother):
        create(state, "orders", "globex")
    with pytest.raises(TopicNotFound):
        create(state, "orders", "globex", alone=True)


def test_the_topic_of_an_aggregate_type_follows_its_owner(state: State) -> None:
    with pytest.raises(AggregateTypeNotFound):
        create(state, "events.order", "acme", alone=True)
    fold(state, *decide_first_use(state, [ORDER], tenant="acme", now=5))
    with pytest.raises(AggregateTypeNotFound):
        create(state, "events.order", "globex", alone=True)
    fold(state, create(state, "events.order"))
    assert state.topics["events.order"].tenant == "acme"
    fold(state, create(state, "events.ship", "globex"))
    with pytest.raises(AggregateTypeNotFound):
        decide_first_use(state, [OwnedName(OwnedKind.AGGREGATE_TYPE, "ship")], tenant="acme", now=6)


def test_owners_come_out_of_a_snapshot_as_they_went_in(state: State) -> None:
    fold(
        state,
        create(state, "orders", "acme"),
        *decide_first_use(state, [MAIL, ORDER], tenant="globex", now=5),
    )
    parts = {name: memoryview(part) for name, part in dump_state(state).items()}
    loaded = load_state(parts, Limits())
    assert differences(canonical(state, now=5), canonical(loaded, now=5)) == []
    assert loaded.owners.queues == {"mail": "globex"}
    del parts["owners"]  # As a release before tenants wrote it.
    assert load_state(parts, Limits()).owners.queues == {}


@pytest.mark.clause("O6")
def test_a_topic_of_an_older_log_belongs_to_nobody(state: State) -> None:
    whole = msgspec.msgpack.encode(TopicCreated(at=1, topic=1, name="old", partitions=1))
    older = msgspec.msgpack.encode(msgspec.msgpack.decode(whole)[:-1])
    evolve(state, msgspec.msgpack.decode(older, type=TopicCreated), segment=1, blob_at=0)
    assert state.topics["old"].tenant == ""
    assert owner_of(state, OwnedKind.TOPIC, "old") is None


def test_the_record_is_small_and_says_what_it_means() -> None:
    record = OwnerSet(at=1, kind=OwnedKind.QUEUE, name="mail", tenant="acme")
    ((decoded, _),) = decode_records(memoryview(encode_record(record)))
    assert decoded == record
