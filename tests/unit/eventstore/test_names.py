"""Names never collide: segments by position, topics by aggregate type, content by its parts."""

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from driftq.eventstore.published import topic_of
from driftq.eventstore.stored import SegmentRange, content_hash, parse_segment_name
from driftq.model import Aggregate, Operation, topic_name_problem

# Case, spaces, Unicode forms, separators and newlines, close together, so that neighbours are drawn often.
TRICKY = st.text(st.sampled_from("aAbé\u0301eÅ\u212b :/%_-.\n\r\t\u00a0\u2028ſK\u212aß2F"), max_size=6)
PARTS = st.one_of(TRICKY, st.text(max_size=20).filter(lambda text: "\0" not in text))
POSITIONS = st.integers(1, 10**18)


@pytest.mark.clause("S8")
@given(first=POSITIONS, second=POSITIONS)
def test_segments_sort_by_name_as_by_position(first: int, second: int) -> None:
    one, other = SegmentRange(first, first + 9), SegmentRange(second, second + 9)
    assert (one.name < other.name) == (one < other)
    assert parse_segment_name(one.name) == one


@pytest.mark.clause("S8")
@pytest.mark.parametrize(
    "name", ["segments/1-2.parquet", "segments/x", "staging/1", f"{SegmentRange(1, 2).name}#1"]
)
def test_other_names_are_no_segments(name: str) -> None:
    assert parse_segment_name(name) is None


@pytest.mark.clause("S9", "U4", "X7")
@given(one=PARTS, other=PARTS)
def test_two_aggregate_types_never_share_a_topic(one: str, other: str) -> None:
    assume(one != other)
    assert topic_of(one) != topic_of(other)


@pytest.mark.clause("S9", "U4", "X7")
@given(st.one_of(PARTS, st.text(min_size=60, max_size=400)))
def test_every_aggregate_type_has_a_topic_that_may_be_made(aggregate_type: str) -> None:
    assert topic_name_problem(topic_of(aggregate_type)) is None


@pytest.mark.clause("U4")
def test_the_topic_spells_the_type() -> None:
    assert topic_of("order") == "events.order"
    assert topic_of("Order-2") == "events.Order-2"
    assert topic_of("a_b.c é") == "events.a_5Fb_2Ec_20_C3_A9"


@pytest.mark.clause("S9", "U4", "X7")
def test_long_types_with_one_beginning_have_topics_of_their_own() -> None:
    names = {topic_of("x" * length) for length in range(200, 300)}
    assert len(names) == 100
    assert all(re.fullmatch(r"events\.x*(_\.[0-9a-f]{64})?", name) for name in names)


@pytest.mark.clause("S5", "S9", "X7")
@given(one=st.tuples(PARTS, PARTS, PARTS, PARTS), other=st.tuples(PARTS, PARTS, PARTS, PARTS))
def test_contents_with_different_parts_have_different_hashes(
    one: tuple[str, str, str, str], other: tuple[str, str, str, str]
) -> None:
    def hashed(parts: tuple[str, str, str, str]) -> str:
        return content_hash(
            Aggregate(parts[0], parts[1]),
            event_type=parts[2],
            kind=parts[3],
            operation=Operation.APPEND,
            payload_json="{}",
        )

    assert (hashed(one) == hashed(other)) == (one == other)
