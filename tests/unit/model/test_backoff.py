"""Waits double up to a cap, and jitter moves them within known bounds."""

import pytest

from driftq.model.backoff import Backoff, between, doubled


def test_a_wait_doubles_and_stops_at_the_cap() -> None:
    assert [doubled(100, times, cap=5_000) for times in range(8)] == [
        100,
        200,
        400,
        800,
        1600,
        3200,
        5000,
        5000,
    ]
    assert doubled(0.05, 3, cap=2.0) == 0.4
    assert doubled(3, cap=100) == 6


def test_a_long_row_of_failures_costs_no_large_numbers() -> None:
    assert doubled(1, 10**9, cap=2**31 - 1) == 2**31 - 1


def test_a_base_of_zero_never_waits() -> None:
    assert doubled(0, 30, cap=1000) == 0


@pytest.mark.parametrize(("jitter", "factor"), [(0.0, 0.75), (0.5, 0.875), (1.0, 1.0)])
def test_jitter_moves_between_the_bounds(jitter: float, factor: float) -> None:
    assert between(0.75, 1.0, jitter) == factor


def test_full_jitter_reaches_from_nothing_to_the_limit() -> None:
    backoff = Backoff(base_ms=500, cap_ms=30_000)
    assert [backoff.limit_ms(failures) for failures in (1, 2, 7, 100)] == [500, 1000, 30_000, 30_000]
    assert [backoff.full_jitter_ms(3, jitter) for jitter in (0.0, 0.25, 1.0)] == [0, 500, 2000]
