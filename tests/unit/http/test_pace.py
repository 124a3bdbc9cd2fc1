"""How slowly a request may come: seconds pass when the test says so."""

import pytest

from driftq.errors import RequestTimeout
from driftq.http.wire.connection import Pace
from driftq.http.wire.edge import HttpOptions

KIB = 1 << 10


@pytest.mark.clause("H4")
def test_a_head_has_ten_seconds_however_many_bytes_it_sends() -> None:
    pace = Pace(HttpOptions())
    looks = [pace.look(1, in_head=True, received_bytes=second * KIB) for second in range(1, 12)]
    assert looks[:10] == [None] * 10
    assert isinstance(looks[10], RequestTimeout)
    assert (looks[10].status, looks[10].code) == (408, "REQUEST_TIMEOUT")


@pytest.mark.clause("H4")
def test_a_body_may_take_long_if_it_comes_fast_enough() -> None:
    pace = Pace(HttpOptions())
    sizes = [KIB * second for second in range(1000)]
    assert all(pace.look(1, in_head=False, received_bytes=size) is None for size in sizes)


@pytest.mark.clause("H4")
def test_a_body_may_pause_within_a_window_that_is_full() -> None:
    """Ten KiB at once are enough for the ten seconds behind them, and no more than that."""
    pace = Pace(HttpOptions())
    assert pace.look(1, in_head=False, received_bytes=0) is None
    looks = [pace.look(1, in_head=False, received_bytes=10 * KIB) for _ in range(11)]
    assert looks[:10] == [None] * 10
    assert isinstance(looks[10], RequestTimeout)


@pytest.mark.clause("H4")
def test_a_body_that_began_fast_has_no_credit() -> None:
    pace = Pace(HttpOptions())
    for second in range(20):
        assert pace.look(1, in_head=False, received_bytes=second << 20) is None
    slow = [pace.look(1, in_head=False, received_bytes=(19 << 20) + drip) for drip in range(12)]
    assert any(isinstance(look, RequestTimeout) for look in slow)


@pytest.mark.clause("H4")
def test_each_request_and_each_body_begins_anew() -> None:
    pace = Pace(HttpOptions())
    for request in range(1, 5):
        for _ in range(9):
            assert pace.look(request, in_head=True, received_bytes=1) is None
        for _ in range(9):
            assert pace.look(request, in_head=False, received_bytes=1) is None


def test_the_slowest_is_the_one_with_the_fewest_bytes_for_its_time() -> None:
    old, young = Pace(HttpOptions()), Pace(HttpOptions())
    for _ in range(8):
        old.look(1, in_head=True, received_bytes=40)
    assert old.bytes_per_s(1, received_bytes=40) == 5
    assert young.bytes_per_s(1, received_bytes=40) == 40
    assert old.bytes_per_s(2, received_bytes=40) == 40  # Another request has begun since.
