"""Many writers at once: numbers stay distinct and consecutive, ids unique, and retries succeed."""

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any, TypeVar

import pytest

from driftq.errors import Conflict, EventIdReused, SequenceConflict
from driftq.eventstore import AllocatorMode, Append, Appended, EventStore, MismatchMode
from tests.conformance.eventstore.conftest import Setup
from tests.unit.eventstore.making import command, update

pytestmark = pytest.mark.clause("S6")
Result = TypeVar("Result")


def at_once(calls: Sequence[Callable[[], Result]]) -> list[Result | Conflict]:
    """Run all calls in threads that start together; a conflict is an outcome like any other."""
    start = Barrier(len(calls))

    def run(call: Callable[[], Result]) -> Result | Conflict:
        start.wait()
        try:
            return call()
        except Conflict as conflict:
            return conflict

    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(run, calls))


def appending(store: EventStore, *commands: Append) -> Callable[[], list[Appended]]:
    return lambda: store.append(commands)


def numbers(store: EventStore, aggregate_id: str = "o-1") -> list[int | None]:
    return [event.sequence_number for event in store.read_aggregate("order", aggregate_id).events]


@pytest.mark.clause("S2")
def test_fifty_writers_on_one_aggregate_get_fifty_consecutive_numbers(store: EventStore) -> None:
    outcomes = at_once([appending(store, command(f"e{writer}")) for writer in range(50)])
    got = sorted(answer.sequence_number for each in outcomes if isinstance(each, list) for answer in each)
    assert got == list(range(1, 51))
    assert numbers(store) == got


@pytest.mark.clause("S2")
def test_two_processes_worth_of_stores_count_together(setup: Setup) -> None:
    stores = [setup.store(), setup.store()]
    at_once([appending(stores[writer % 2], command(f"e{writer}")) for writer in range(20)])
    assert numbers(stores[0]) == list(range(1, 21))


@pytest.mark.clause("S4")
def test_racing_appends_of_one_event_store_it_once(store: EventStore) -> None:
    outcomes = at_once([appending(store, command("same")) for _ in range(20)])
    assert Counter(str(each) for each in outcomes) == {
        str([Appended("same", 1)]): 1,
        str([Appended("same", 1, duplicate=True)]): 19,
    }


@pytest.mark.clause("S5")
@pytest.mark.parametrize("part", ["payload", "aggregate_id"])
def test_racing_appends_of_one_id_with_other_content_store_one(store: EventStore, part: str) -> None:
    others: list[dict[str, Any]] = [{part: f"v{writer}"} for writer in range(20)]
    outcomes = at_once([appending(store, command("same", **other)) for other in others])
    assert Counter(type(each) for each in outcomes) == {list: 1, EventIdReused: 19}
    found = [numbers(store, name) for name in ("o-1", *(f"v{writer}" for writer in range(20)))]
    assert [each for each in found if each] == [[1]]


@pytest.mark.clause("S5")
def test_in_mode_warn_too_only_the_first_content_is_stored(setup: Setup) -> None:
    store = setup.store(mismatch=MismatchMode.WARN)
    outcomes = at_once([appending(store, command("same", payload=writer)) for writer in range(10)])
    answers = [answer for each in outcomes if isinstance(each, list) for answer in each]
    assert Counter(answer.payload_mismatch for answer in answers) == {False: 1, True: 9}
    assert {answer.sequence_number for answer in answers} == {1}


@pytest.mark.clause("S3")
def test_of_racing_updates_one_wins_and_the_others_are_told_where_it_is(store: EventStore) -> None:
    store.append([command("first")])
    outcomes = at_once([appending(store, update(f"u{writer}", 1)) for writer in range(20)])
    lost = [each for each in outcomes if isinstance(each, SequenceConflict)]
    assert len(lost) == 19
    assert {(each.expected_seq, each.actual_seq) for each in lost} == {(1, 2)}
    assert numbers(store) == [1, 2]


@pytest.mark.clause("S2", "S4")
def test_lists_that_cross_each_other_all_arrive_once(store: EventStore) -> None:
    commands = [command(f"e{number}", aggregate_id=f"o-{number % 5}") for number in range(20)]
    turned = list(reversed(commands))
    outcomes = at_once([appending(store, *(turned if writer % 2 else commands)) for writer in range(8)])
    answers = [answer for each in outcomes if isinstance(each, list) for answer in each]
    assert len(answers) == 8 * 20
    assert sum(not answer.duplicate for answer in answers) == 20
    assert [numbers(store, f"o-{number}") for number in range(5)] == [[1, 2, 3, 4]] * 5


@pytest.mark.clause("S7")
@pytest.mark.parametrize("mode", [AllocatorMode.LEGACY, AllocatorMode.S3])
def test_a_lost_race_of_the_legacy_mode_is_a_conflict_that_may_be_retried(
    setup: Setup, mode: AllocatorMode
) -> None:
    store = setup.store(allocator=mode)
    commands = [command(f"e{writer}") for writer in range(12)]
    outcomes = at_once([appending(store, each) for each in commands])
    assert {type(each) for each in outcomes} <= {list, SequenceConflict}
    for each in commands:
        store.append([each])
    assert numbers(store) == list(range(1, 13))


@pytest.mark.clause("S7")
def test_without_an_allocator_a_number_is_still_given_once(setup: Setup) -> None:
    store = setup.store(allocator=AllocatorMode.OFF)
    outcomes = at_once([appending(store, command(f"e{writer}", sequence_number=1)) for writer in range(10)])
    assert Counter(type(each) for each in outcomes) == {list: 1, SequenceConflict: 9}
    assert numbers(store) == [1]
