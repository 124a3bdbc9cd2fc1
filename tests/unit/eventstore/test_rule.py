"""The append rule on plain values: duplicates, reused ids, expected sequences, lists."""

import itertools
from typing import Any

import pytest

from driftq.errors import EventIdReused, SequenceConflict
from driftq.eventstore.append.draft import Draft
from driftq.eventstore.append.rule import Answer, EventDecision, KnownEvent, decide
from driftq.eventstore.options import AllocatorMode, MismatchMode
from driftq.eventstore.outcome import Appended, Refused
from driftq.model import Aggregate, Operation
from tests.unit.eventstore.making import a_draft

ORDER = Aggregate("order", "o-1")


def decided(
    *drafts: Draft,
    head: int = 0,
    known: dict[str, KnownEvent] | None = None,
    warn: bool = False,
    assumed: dict[Aggregate, int] | None = None,
) -> EventDecision:
    mode = MismatchMode.WARN if warn else MismatchMode.ERROR
    groups = [list(group) for _, group in itertools.groupby(drafts, key=lambda each: each.aggregate)]
    return decide(
        groups, known=known or {}, heads={ORDER: head} if head else {}, mismatch=mode, assumed=assumed
    )


def flat(decision: EventDecision) -> list[Answer]:
    return [answer for group in decision.answers for answer in group]


def remembered(draft: Draft, number: int) -> dict[str, KnownEvent]:
    return {draft.event_id: KnownEvent(draft.content_hash, number)}


def numbers(decision: EventDecision) -> list[int]:
    return [each.sequence_number for each in decision.fresh]


@pytest.mark.clause("S2")
def test_numbers_start_at_one_and_have_no_gap() -> None:
    decision = decided(a_draft("a"), a_draft("b"), a_draft("c"))
    assert numbers(decision) == [1, 2, 3]
    assert flat(decision) == [Appended("a", 1), Appended("b", 2), Appended("c", 3)]


@pytest.mark.clause("S2")
def test_numbers_go_on_from_the_head() -> None:
    assert numbers(decided(a_draft("x"), head=41)) == [42]


@pytest.mark.clause("S3")
@pytest.mark.parametrize(
    "operation", [Operation.UPDATE, Operation.DELETE, Operation.APPEND, Operation.CREATE]
)
def test_a_wrong_expected_sequence_is_a_conflict_with_its_facts(operation: Operation) -> None:
    decision = decided(a_draft(operation=operation, expected_seq=2), head=5)
    (answer,) = flat(decision)
    assert isinstance(answer, Refused)
    assert isinstance(answer.error, SequenceConflict)
    assert vars(answer.error) == {"aggregate_id": "o-1", "expected_seq": 2, "actual_seq": 5}
    assert (answer.error.status, answer.error.code) == (409, "CONFLICT")
    assert decision.fresh == []


@pytest.mark.clause("S3")
def test_create_expects_nothing_before_it_unless_it_says_otherwise() -> None:
    create = a_draft(operation=Operation.CREATE)
    assert numbers(decided(create)) == [1]
    assert decided(create, head=3).fresh == []
    assert numbers(decided(a_draft(operation=Operation.CREATE, expected_seq=3), head=3)) == [4]


@pytest.mark.clause("S3")
def test_each_event_of_a_list_is_checked_against_those_before_it() -> None:
    drafts = [
        a_draft("a", operation=Operation.CREATE),
        a_draft("b", operation=Operation.UPDATE, expected_seq=1),
    ]
    assert numbers(decided(*drafts)) == [1, 2]


@pytest.mark.clause("S4")
def test_the_same_event_again_is_a_duplicate_whatever_it_expects() -> None:
    again = a_draft("a", operation=Operation.UPDATE, expected_seq=6)
    decision = decided(again, head=9, known=remembered(again, 7))
    assert flat(decision) == [Appended("a", 7, duplicate=True)]
    assert decision.fresh == []


@pytest.mark.clause("S4")
def test_an_event_twice_in_one_list_is_stored_once() -> None:
    decision = decided(a_draft("a"), a_draft("a"))
    assert flat(decision) == [Appended("a", 1), Appended("a", 1, duplicate=True)]
    assert numbers(decision) == [1]


@pytest.mark.clause("S5")
@pytest.mark.parametrize(
    "other",
    [
        {"payload": {"total": 4}},
        {"event_type": "OrderPaid"},
        {"kind": "command"},
        {"operation": Operation.CREATE},
        {"aggregate_id": "o-2"},
        {"aggregate_type": "invoice"},
    ],
)
def test_the_same_id_with_other_content_is_refused(other: dict[str, Any]) -> None:
    known = remembered(a_draft("a"), 1)
    (answer,) = flat(decided(a_draft("a", **other), head=1, known=known))
    assert isinstance(answer, Refused)
    assert isinstance(answer.error, EventIdReused)
    assert (answer.error.status, answer.error.reason) == (409, "event_id_reused")


@pytest.mark.clause("S5")
def test_in_mode_warn_the_first_content_stays() -> None:
    known = remembered(a_draft("a"), 1)
    decision = decided(a_draft("a", payload=None), head=1, known=known, warn=True)
    assert flat(decision) == [Appended("a", 1, duplicate=True, payload_mismatch=True)]
    assert decision.fresh == []


@pytest.mark.clause("S5")
def test_time_metadata_and_schema_version_are_no_part_of_the_content() -> None:
    one, other = a_draft("a"), a_draft("a", metadata={"by": "retry"}, schema_version="2")
    assert one.content_hash == other.content_hash


@pytest.mark.clause("S6")
def test_a_group_is_all_or_nothing_and_the_next_is_on_its_own() -> None:
    decision = decide(
        [
            [a_draft("a"), a_draft("b", operation=Operation.UPDATE, expected_seq=9)],
            [a_draft("c", aggregate_id="o-2")],
            [a_draft("d")],
        ],
        known={},
        heads={},
        mismatch=MismatchMode.ERROR,
    )
    (first, second), third, fourth = decision.answers
    assert isinstance(first, Refused)
    assert isinstance(second, Refused)
    assert first.error is second.error
    assert (third, fourth) == ([Appended("c", 1)], [Appended("d", 1)])
    assert [each.draft.event_id for each in decision.fresh] == ["c", "d"]
    assert decision.heads == {Aggregate("order", "o-2"): 1, ORDER: 1}


@pytest.mark.clause("S4", "S6")
def test_what_was_stored_before_stays_a_duplicate_in_a_group_that_fails() -> None:
    old = a_draft("old")
    bad = a_draft("bad", operation=Operation.UPDATE, expected_seq=9)
    one, other = flat(decided(old, bad, head=1, known=remembered(old, 1)))
    assert one == Appended("old", 1, duplicate=True)
    assert isinstance(other, Refused)


@pytest.mark.clause("S5", "S6")
def test_an_id_is_taken_only_by_a_group_that_is_stored() -> None:
    lost = [a_draft("a"), a_draft("b", operation=Operation.UPDATE, expected_seq=9)]
    elsewhere = a_draft("a", aggregate_id="o-2")
    assert flat(decided(*lost, elsewhere))[2] == Appended("a", 1)
    assert isinstance(flat(decided(lost[0], elsewhere))[1], Refused)


@pytest.mark.clause("S7")
def test_with_the_allocator_off_the_caller_numbers_and_may_not_go_back() -> None:
    five = a_draft("a", mode=AllocatorMode.OFF, sequence_number=5)
    assert numbers(decided(five)) == [5]
    (answer,) = flat(decided(five, head=5))
    assert isinstance(answer, Refused)
    assert isinstance(answer.error, SequenceConflict)
    assert (answer.error.expected_seq, answer.error.actual_seq) == (4, 5)


@pytest.mark.clause("S7")
def test_an_optimistic_writer_that_lost_a_race_is_told_so() -> None:
    (answer,) = flat(decided(a_draft("a"), head=3, assumed={ORDER: 2}))
    assert isinstance(answer, Refused)
    assert isinstance(answer.error, SequenceConflict)
    assert (answer.error.expected_seq, answer.error.actual_seq) == (2, 3)
    assert numbers(decided(a_draft("a"), head=3, assumed={ORDER: 3})) == [4]
