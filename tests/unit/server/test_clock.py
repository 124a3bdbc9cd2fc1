"""The server's clock never goes back, whatever the machine's clock does."""

import time

import pytest

from driftq.server.clock import SystemClock


@pytest.mark.clause("W9")
def test_a_jump_of_the_machines_clock_moves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SystemClock()
    before = clock.now()
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    assert 0 <= clock.now() - before < 5_000
    monkeypatch.setattr(time, "time_ns", lambda: 2**62)
    assert 0 <= clock.now() - before < 5_000


@pytest.mark.clause("W9")
def test_it_is_never_below_the_last_time_in_the_log() -> None:
    clock = SystemClock()
    ahead = clock.now() + 3_600_000
    clock.not_below(ahead)
    assert clock.now() >= ahead
    clock.not_below(0)
    assert clock.now() >= ahead
