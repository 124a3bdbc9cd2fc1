"""Appending: what is stored comes back, numbers have no gaps, duplicates and conflicts change nothing."""

import datetime as dt
import logging

import pytest

from driftq.errors import EventIdReused, InvalidArgument, SequenceConflict
from driftq.eventstore import Appended, EventStore, MismatchMode, Refused
from driftq.model import Operation
from tests.conformance.eventstore.conftest import Setup
from tests.unit.eventstore.making import command, event, update

CREATE = Operation.CREATE


def stored_ids(store: EventStore, aggregate_id: str = "o-1") -> list[str]:
    return [event.event_id for event in store.read_aggregate("order", aggregate_id).events]


@pytest.mark.clause("S1")
def test_every_field_comes_back(store: EventStore) -> None:
    at = dt.datetime(2026, 1, 8, 9, 30, 0, 123456, tzinfo=dt.timezone(dt.timedelta(hours=9)))
    given = event(
        kind="command",
        operation=CREATE,
        occurred_at=at,
        payload={"é": [1, 2.5, None, True, 10**30, "\0\n"], "a": {}},
        metadata={"by": "me"},
        schema_version="2.1",
    )
    store.append([command(**{name: getattr(given, name) for name in given.__struct_fields__})])
    (found,) = store.read_aggregate("order", "o-1").events
    assert (found.payload, found.schema_version, found.operation) == (given.payload, "2.1", CREATE)
    assert (found.occurred_at, found.sequence_number, found.kind) == (at, 1, "command")
    assert found.metadata == {"by": "me", "kind": "command"}


@pytest.mark.clause("S2")
def test_each_aggregate_counts_from_one(store: EventStore) -> None:
    assert [answer.sequence_number for answer in store.append([command("a"), command("b")])] == [1, 2]
    assert store.append([command("c", aggregate_id="o-2")]) == [Appended("c", 1)]
    assert store.append([command("d", aggregate_type="invoice")]) == [Appended("d", 1)]
    assert store.append([command("e")]) == [Appended("e", 3)]


@pytest.mark.clause("S3", "S6")
def test_a_conflict_changes_nothing_and_burns_no_number(store: EventStore) -> None:
    store.append([command("a", operation=CREATE)])
    with pytest.raises(SequenceConflict) as refused:
        store.append([update("b", 0)])
    assert vars(refused.value) == {"aggregate_id": "o-1", "expected_seq": 0, "actual_seq": 1}
    assert store.append([update("b", 1)]) == [Appended("b", 2)]
    with pytest.raises(SequenceConflict):
        store.append([command("c", operation=CREATE)])
    assert store.append([command("c", operation=CREATE, expected_seq=2)]) == [Appended("c", 3)]


@pytest.mark.clause("S3")
def test_an_update_that_expects_nothing_is_refused(store: EventStore) -> None:
    with pytest.raises(InvalidArgument):
        store.append([command("a", operation=Operation.DELETE)])


@pytest.mark.clause("S4", "S6")
def test_the_same_command_again_is_a_duplicate_for_ever(setup: Setup) -> None:
    commands = [command("a", operation=CREATE), update("b", 1), update("c", 2)]
    first = setup.store().append(commands)
    again = setup.store().append(commands)
    assert [answer.sequence_number for answer in again] == [answer.sequence_number for answer in first]
    assert all(answer.duplicate and not answer.payload_mismatch for answer in again)
    assert stored_ids(setup.store()) == ["a", "b", "c"]


@pytest.mark.clause("S5")
@pytest.mark.parametrize("kind", ["command", "event"])
def test_a_reused_id_is_refused_whoever_wrote_it(store: EventStore, kind: str) -> None:
    store.append([command("a", kind=kind)])
    for other in ({"payload": 1}, {"aggregate_id": "o-2"}):
        with pytest.raises(EventIdReused):
            store.append([command("a", kind=kind, **other)])
    assert store.append([command("b", kind=kind)]) == [Appended("b", 2)]


@pytest.mark.clause("S5")
def test_in_mode_warn_the_first_stays_and_it_is_logged(
    setup: Setup, caplog: pytest.LogCaptureFixture
) -> None:
    store = setup.store(mismatch=MismatchMode.WARN)
    store.append([command("a")])
    with caplog.at_level(logging.WARNING):
        answers = store.append([command("a", payload="other")])
    assert answers == [Appended("a", 1, duplicate=True, payload_mismatch=True)]
    assert "'a'" in caplog.text
    assert store.read_aggregate("order", "o-1").events[0].payload == {"total": 3}


@pytest.mark.clause("S6")
def test_a_list_is_all_or_nothing_for_each_aggregate(store: EventStore) -> None:
    answers = store.append_each(
        [command("a"), command("b", aggregate_id="o-2"), update("c", 7), command("d", aggregate_id="")]
    )
    assert [isinstance(answer, Refused) for answer in answers] == [True, False, True, False]
    assert (stored_ids(store), stored_ids(store, "o-2"), stored_ids(store, "")) == ([], ["b"], ["d"])
    assert store.append([command("a"), update("c", 1)]) == [Appended("a", 1), Appended("c", 2)]


@pytest.mark.clause("S6")
def test_an_event_that_cannot_be_meant_takes_its_aggregate_with_it(store: EventStore) -> None:
    answers = store.append_each([command("a"), command("b", kind=""), command("c", aggregate_id="o-2")])
    assert [isinstance(answer, Refused) for answer in answers] == [True, True, False]
    assert stored_ids(store) == []


@pytest.mark.clause("S6")
def test_callers_that_share_a_transaction_share_no_fate(store: EventStore) -> None:
    answers = store.append_many([[command("a")], [update("b", 9)], [command("c")], []])
    assert answers[0] == [Appended("a", 1)]
    assert isinstance(answers[1][0], Refused)
    assert answers[2:] == [[Appended("c", 2)], []]


@pytest.mark.clause("S2", "S6")
def test_a_list_longer_than_a_transaction_is_still_one_for_its_aggregate(store: EventStore) -> None:
    commands = [command(f"e{number}") for number in range(150)]
    refused = store.append_each([*commands, update("bad", 3)])
    assert all(isinstance(answer, Refused) for answer in refused)
    assert [answer.sequence_number for answer in store.append(commands)] == list(range(1, 151))
    many = [command(f"m{number}", aggregate_id=f"x-{number % 50}") for number in range(200)]
    assert {answer.sequence_number for answer in store.append(many)} == {1, 2, 3, 4}


@pytest.mark.clause("S6")
def test_numbers_that_were_reserved_for_a_duplicate_are_not_lost(store: EventStore) -> None:
    store.append([command("a")])
    store.append([command("a"), command("b"), command("a")])
    assert store.append([command("c")]) == [Appended("c", 3)]
