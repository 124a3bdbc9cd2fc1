"""The server's two times: one never goes back, the other is the machine's and is not believed blindly."""

import logging
import time

import pytest

from driftq.server.clock import HOLD_MS, STEP_MS, SystemClock, WallWatch, log_ahead_ms
from driftq.testing.clock import VirtualClock

HOUR_MS = 3_600_000


@pytest.mark.clause("W9")
def test_a_jump_of_the_machines_clock_moves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SystemClock()
    before, steady = clock.now(), time.monotonic_ns()
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    assert clock.now() - before <= (time.monotonic_ns() - steady) // 1_000_000 + 1
    monkeypatch.setattr(time, "time_ns", lambda: 2**62)
    assert clock.now() - before <= (time.monotonic_ns() - steady) // 1_000_000 + 1


@pytest.mark.clause("W9")
def test_it_is_never_below_the_last_time_in_the_log() -> None:
    clock = SystemClock()
    ahead = clock.now() + 3_600_000
    clock.not_below(ahead)
    assert clock.now() >= ahead
    clock.not_below(0)
    assert clock.now() >= ahead


@pytest.mark.clause("W9")
def test_a_log_that_is_ahead_moves_engine_time_and_not_the_wall_clock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: 1_700_000_000_000 * 1_000_000)
    clock = SystemClock()
    clock.not_below(1_700_000_000_000 + HOUR_MS)
    assert clock.now() >= 1_700_000_000_000 + HOUR_MS
    assert clock.wall() == 1_700_000_000_000
    assert log_ahead_ms(clock) >= HOUR_MS


@pytest.mark.clause("W9")
def test_a_log_that_is_a_minute_ahead_is_nothing_to_report() -> None:
    clock = VirtualClock()
    clock.not_below(clock.wall() + STEP_MS)
    assert log_ahead_ms(clock) == 0
    clock.not_below(clock.wall() + STEP_MS + 1)
    assert log_ahead_ms(clock) == STEP_MS + 1


@pytest.mark.clause("W9")
def test_a_forward_step_counts_when_it_has_lasted_for_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    clock = VirtualClock()
    before = clock.wall()
    clock.set_wall(by_ms=HOUR_MS)
    assert clock.wall() == before
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert "3600 s" in caplog.text
    clock.advance(ms=HOLD_MS - 1)
    assert clock.wall() == before + HOLD_MS - 1
    clock.advance(ms=1)
    assert clock.wall() == before + HOLD_MS + HOUR_MS


@pytest.mark.clause("W9")
def test_a_step_that_is_taken_back_has_never_been(caplog: pytest.LogCaptureFixture) -> None:
    clock = VirtualClock()
    before = clock.wall()
    clock.set_wall(by_ms=HOUR_MS)
    assert clock.wall() == before
    clock.advance(ms=30_000)
    clock.set_wall(by_ms=-HOUR_MS)
    assert clock.wall() == before + 30_000
    clock.advance(ms=40_000)
    clock.set_wall(by_ms=HOUR_MS)
    assert clock.wall() == before + 70_000, "a new step waits for its own minute"
    assert sum(record.levelno == logging.ERROR for record in caplog.records) == 2


@pytest.mark.clause("W9")
def test_a_second_step_waits_for_a_minute_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    clock = VirtualClock()
    before = clock.wall()
    clock.set_wall(by_ms=HOUR_MS)
    assert clock.wall() == before
    clock.advance(ms=HOLD_MS - 1)
    clock.set_wall(by_ms=HOUR_MS)
    assert clock.wall() == before + HOLD_MS - 1
    clock.advance(ms=HOLD_MS - 1)
    assert clock.wall() == before + 2 * HOLD_MS - 2
    clock.advance(ms=1)
    assert clock.wall() == before + 2 * HOLD_MS - 1 + 2 * HOUR_MS
    assert sum(record.levelno == logging.ERROR for record in caplog.records) == 2


@pytest.mark.clause("W9")
def test_small_steps_and_steps_back_count_at_once(caplog: pytest.LogCaptureFixture) -> None:
    clock = VirtualClock()
    before = clock.wall()
    clock.set_wall(by_ms=STEP_MS)
    assert clock.wall() == before + STEP_MS
    assert caplog.records == []
    clock.set_wall(by_ms=-HOUR_MS)
    assert clock.wall() == before + STEP_MS - HOUR_MS
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


@pytest.mark.clause("W9")
def test_a_held_step_that_is_partly_taken_back_goes_on_waiting() -> None:
    watch = WallWatch(0, 0)
    assert watch.read(10 * HOUR_MS, 0) == 0
    assert watch.read(HOUR_MS + 1_000, 1_000) == 1_000
    assert watch.read(HOUR_MS + HOLD_MS, HOLD_MS) == HOUR_MS + HOLD_MS
