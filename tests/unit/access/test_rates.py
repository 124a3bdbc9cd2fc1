"""Rates, by a clock that the test moves."""

from driftq.access.rates import ADDRESSES_MAX, TRIES_BURST, Allowance, FailedTries


def test_an_allowance_has_a_second_in_hand_and_fills_again() -> None:
    allowance = Allowance(5, at=0.0)
    for _ in range(5):
        assert allowance.wait_s(0.0) == 0.0
        allowance.use(1)
    wait_s = allowance.wait_s(0.0)
    assert wait_s > 0
    assert allowance.wait_s(wait_s) == 0.0
    assert allowance.wait_s(1000.0) == 0.0
    for _ in range(5):
        allowance.use(1)
    assert allowance.wait_s(1000.0) > 0  # What was not used is not saved up.


def test_a_large_use_is_paid_by_waiting() -> None:
    allowance = Allowance(100, at=0.0)
    assert allowance.wait_s(0.0) == 0.0
    allowance.use(1_000)
    assert allowance.wait_s(0.0) > 8.9
    assert allowance.wait_s(8.0) > 0
    assert allowance.wait_s(10.0) == 0.0


def test_an_address_fails_a_few_times_and_then_once_a_second() -> None:
    tries = FailedTries()
    assert [tries.failed("10.0.0.1", now=0.0) for _ in range(TRIES_BURST)] == [0.0] * TRIES_BURST
    assert tries.failed("10.0.0.1", now=0.0) > 0
    assert tries.failed("10.0.0.2", now=0.0) == 0.0
    assert tries.failed("10.0.0.1", now=2.0) == 0.0


def test_a_network_of_ipv6_is_one_address() -> None:
    tries = FailedTries()
    for number in range(TRIES_BURST):
        assert tries.failed(f"2001:db8::{number:x}", now=0.0) == 0.0
    assert tries.failed("2001:db8::ffff", now=0.0) > 0
    assert tries.failed("2001:db8:0:1::1", now=0.0) == 0.0


def test_memory_is_bounded_however_many_addresses_fail() -> None:
    tries = FailedTries()
    for number in range(ADDRESSES_MAX + 100):
        tries.failed(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", now=0.0)
    assert len(tries) == ADDRESSES_MAX
