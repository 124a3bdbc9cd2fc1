"""The checks of the kill storm find what they look for: each fails on a history with one thing wrong."""

import pytest

from tests.crash.checks import check_finished, check_group, check_messages, check_order
from tests.crash.history import GroupHistory, History, Place, ReceivedLine, Settled
from tests.crash.workload import REASON

A = Place(0, 0)
B = Place(0, 1)
MESSAGES = {A: "a", B: "b"}


def sound() -> History:
    """Two messages, each delivered and acked; the first was nacked before."""
    history = History()
    for place, value in MESSAGES.items():
        history.sending(value)
        history.confirm(value, place)
        history.deliver("g", place, ReceivedLine("w", 1, value, ""))
    history.nack("g", A, Settled(1, True, 1.0, 2.0))
    history.deliver("g", A, ReceivedLine("w", 2, "a", REASON))
    history.ack("g", A, Settled(2, True, 3.0, 4.0), outlived=False)
    history.ack("g", B, Settled(1, True, 3.0, 4.0), outlived=False)
    return history


def check(history: History, messages: dict[Place, str] | None = None) -> None:
    messages = MESSAGES if messages is None else messages
    group: GroupHistory = history.groups["g"]
    check_messages(history, messages)
    check_group(group, messages)
    check_order(group)
    check_finished(group, messages)


def test_a_sound_history_passes() -> None:
    check(sound())


def test_a_confirmed_message_that_is_gone() -> None:
    with pytest.raises(AssertionError, match="confirmed and not there"):
        check(sound(), {A: "a"})


def test_a_message_stored_twice() -> None:
    with pytest.raises(AssertionError, match="stored more than once"):
        check(sound(), {**MESSAGES, Place(1, 2): "a"})


def test_an_attempt_number_given_twice() -> None:
    history = sound()
    history.deliver("g", B, ReceivedLine("v", 1, "b", ""))
    with pytest.raises(AssertionError, match="given twice"):
        check(history)


def test_a_delivery_after_the_ack() -> None:
    history = sound()
    history.deliver("g", B, ReceivedLine("v", 2, "b", "ack_timeout"))
    history.ack("g", B, Settled(2, True, 5.0, 6.0), outlived=False)
    with pytest.raises(AssertionError, match="acked at attempt 1, delivered again"):
        check(history)


def test_a_late_ack_of_an_older_attempt_is_no_fault() -> None:
    history = sound()
    history.deliver("g", B, ReceivedLine("v", 2, "b", "ack_timeout"))
    history.ack("g", B, Settled(2, True, 3.5, 6.0), outlived=False)
    check(history)


@pytest.mark.parametrize("last_error", ["", "ack_timeout", "something else"])
def test_a_last_error_forgotten(last_error: str) -> None:
    history = sound()
    history.groups["g"].deliveries[A][1] = ReceivedLine("w", 2, "a", last_error)
    with pytest.raises(AssertionError, match="attempt 2 has last error"):
        check(history)


def test_first_deliveries_out_of_order() -> None:
    history = sound()
    history.groups["g"].firsts["w"].reverse()
    with pytest.raises(AssertionError, match="out of order"):
        check(history)


def test_a_message_never_delivered() -> None:
    history = sound()
    history.sending("c")
    with pytest.raises(AssertionError, match="never delivered"):
        check(history, {**MESSAGES, Place(0, 2): "c"})
