"""Aggregates and ids are compared byte for byte: parts that look alike are kept apart."""

import uuid

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from driftq.eventstore import Append, EventStore
from driftq.model import Event
from tests.unit.eventstore.test_names import PARTS, TRICKY

PAIRS = st.lists(st.tuples(st.one_of(TRICKY, PARTS), TRICKY), min_size=2, max_size=12, unique=True)
SLOWLY = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def an_event(event_id: str, aggregate_type: str, aggregate_id: str) -> Event:
    return Event(
        event_id=event_id,
        aggregate_type=aggregate_type,
        aggregate_id=aggregate_id,
        event_type="Seen",
        kind="event",
        payload=[aggregate_type, aggregate_id],
    )


@pytest.mark.clause("S9", "X7")
@SLOWLY
@given(PAIRS)
def test_aggregates_that_look_alike_count_for_themselves(
    store: EventStore, pairs: list[tuple[str, str]]
) -> None:
    run = uuid.uuid4().hex  # The store is shared by all examples: each brings aggregates of its own.
    events = [an_event(f"{run}{number}", f"{run}{one}", other) for number, (one, other) in enumerate(pairs)]
    answers = store.append([Append(event) for event in events])
    assert [answer.sequence_number for answer in answers] == [1] * len(events)
    for event in events:
        (found,) = store.read_aggregate(event.aggregate_type, event.aggregate_id).events
        assert (found.event_id, found.aggregate, found.payload) == (
            event.event_id,
            event.aggregate,
            event.payload,
        )


@pytest.mark.clause("S4", "S9", "X7")
@SLOWLY
@given(st.lists(TRICKY, min_size=2, max_size=12, unique=True))
def test_ids_that_look_alike_are_different_events(store: EventStore, ids: list[str]) -> None:
    run = uuid.uuid4().hex
    events = [an_event(f"{run}{each}", "order", run) for each in ids]
    answers = store.append([Append(event) for event in events])
    assert [answer.sequence_number for answer in answers] == list(range(1, len(ids) + 1))
    assert all(answer.duplicate for answer in store.append([Append(event) for event in events]))
