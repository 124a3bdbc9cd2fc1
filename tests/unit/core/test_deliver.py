"""Who gets what: in order, in turn, within limits."""

import pytest

from driftq.core.records import FreshBlock
from driftq.model.options.limits import Limits
from tests.unit.core.machine import PureBroker


def _dealt(blocks: list[FreshBlock]) -> list[tuple[str, list[int]]]:
    return [(block.owner, list(range(block.start, block.stop, block.step))) for block in blocks]


@pytest.mark.clause("G1", "T5")
def test_new_messages_are_dealt_in_stripes(broker: PureBroker) -> None:
    broker.group()
    broker.produce(*"abcdefg")
    record = broker.deliver(("a", 9), ("b", 9), ("c", 9))
    assert record is not None
    assert _dealt(record.fresh) == [("a", [0, 3]), ("b", [1, 4]), ("c", [2, 5]), ("a", [6])]


@pytest.mark.clause("G1", "T5")
@pytest.mark.parametrize(
    ("run", "rooms", "dealt"),
    [
        pytest.param(3, (9, 9, 9), [("a", [0, 1, 2]), ("b", [3, 4, 5]), ("c", [6])], id="in their order"),
        pytest.param(
            2, (9, 1, 9), [("a", [0, 1]), ("b", [2]), ("c", [3, 4]), ("a", [5, 6])], id="as far as room goes"
        ),
        pytest.param(2, (9, 0, 0), [("a", list(range(7)))], id="all for the only one"),
        pytest.param(4, (2, 2, 2), [("a", [0, 1]), ("b", [2, 3]), ("c", [4, 5])], id="no more than fits"),
    ],
)
def test_runs_are_of_consecutive_messages(
    broker: PureBroker, run: int, rooms: tuple[int, int, int], dealt: list[tuple[str, list[int]]]
) -> None:
    broker.group()
    broker.produce(*"abcdefg")
    record = broker.deliver(*zip("abc", rooms, strict=True), run=run)
    assert record is not None
    assert _dealt(record.fresh) == dealt


@pytest.mark.clause("G1")
def test_a_consumer_without_room_is_skipped(broker: PureBroker) -> None:
    broker.group()
    broker.produce(*"abcde")
    record = broker.deliver(("a", 1), ("b", 9), ("c", 0))
    assert record is not None
    assert _dealt(record.fresh) == [("a", [0]), ("b", [1]), ("b", [2, 3, 4])]


@pytest.mark.clause("G2")
def test_no_more_than_the_limit_is_in_flight() -> None:
    broker = PureBroker(limits=Limits(in_flight_max=2))
    broker.group()
    broker.produce(*"abc")
    broker.deliver(("a", 9))
    assert broker.deliver(("a", 9)) is None
    broker.ack(1)
    record = broker.deliver(("b", 9))
    assert record is not None
    assert _dealt(record.fresh) == [("b", [2])]


@pytest.mark.clause("G3", "G4", "T6")
def test_groups_go_their_own_way_and_begin_where_they_ask(broker: PureBroker) -> None:
    broker.produce("a", "b")
    broker.group("all")
    broker.group("new", latest=True)
    assert broker.progress("all").acked == broker.progress("new").acked == -1
    assert broker.deliver(("x", 9), group="new") is None
    assert broker.deliver(("x", 9), group="all") is not None
    broker.produce("c")
    record = broker.deliver(("x", 9), group="new")
    assert record is not None
    assert _dealt(record.fresh) == [("x", [2])]


@pytest.mark.clause("D1", "T5")
def test_what_is_due_again_goes_before_what_is_new(broker: PureBroker) -> None:
    broker.group()
    broker.produce("a", "b")
    broker.deliver(("a", 1))
    broker.nack(0)
    broker.now += 100
    record = broker.deliver(("a", 1), ("b", 1))
    assert record is not None
    assert [(block.owner, block.ordinals) for block in record.redelivered] == [("a", [0])]
    assert _dealt(record.fresh) == [("b", [1])]
    assert (broker.progress().attempt_of(0), broker.progress().attempt_of(1)) == (2, 1)


@pytest.mark.clause("G5")
def test_a_waiting_message_is_not_due_early(broker: PureBroker) -> None:
    broker.group()
    broker.produce("a")
    broker.deliver(("a", 1))
    broker.nack(0)
    broker.now += 99
    assert not broker.progress().has_work(broker.now)
    assert broker.deliver(("a", 1)) is None
    assert broker.progress().next_due() == broker.now + 1
