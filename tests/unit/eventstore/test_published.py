"""A published event: what went into the log comes out of the topic, and the text never changes."""

import datetime as dt
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftq.errors import InvalidArgument
from driftq.eventstore.published import decode_published, encode_published
from driftq.eventstore.stored import canonical_json
from driftq.model import Aggregate, Operation
from tests.unit.eventstore.test_segment import TEXT, US, an_event

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.clause("U4")
def test_the_text_has_every_field_in_a_fixed_order() -> None:
    assert encode_published(an_event(7)) == (
        '{"event_id":"e7","aggregate_type":"order","aggregate_id":"o-1","sequence_number":7,'
        '"event_type":"OrderPlaced","kind":"event","operation":"append",'
        '"occurred_at":"2026-01-08T12:00:00.123456Z","payload":{"total":3},"metadata":{"kind":"event"},'
        '"schema_version":1,"position":7}'
    )


@pytest.mark.clause("U4", "X7")
@given(aggregate=st.tuples(TEXT, TEXT), payload=JSON, at=US, version=st.integers(0, 9) | TEXT)
def test_an_event_comes_back_from_its_text(
    aggregate: tuple[str, str], payload: object, at: int, version: int | str
) -> None:
    stored = an_event(
        3,
        aggregate_type=aggregate[0],
        aggregate_id=aggregate[1],
        payload=canonical_json(payload, field="payload"),
        schema_version=canonical_json(version, field="schema_version"),
        occurred_at_us=at,
    )
    event = decode_published(encode_published(stored))
    assert event.aggregate == Aggregate(*aggregate)
    assert (event.payload, event.schema_version, event.position) == (payload, version, 3)
    assert event.operation is Operation.APPEND
    assert event.occurred_at == dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=at)


@pytest.mark.clause("U4")
def test_an_instant_always_has_six_digits() -> None:
    text = encode_published(an_event(1, occurred_at_us=1_767_873_600_000_000))
    assert json.loads(text)["occurred_at"] == "2026-01-08T12:00:00.000000Z"


@pytest.mark.clause("U1")
@pytest.mark.parametrize("value", ["", "[]", '{"event_id":"e1"}', "[" * 100_000])
def test_another_value_is_refused_by_name(value: str) -> None:
    with pytest.raises(InvalidArgument, match="not a published event"):
        decode_published(value)
