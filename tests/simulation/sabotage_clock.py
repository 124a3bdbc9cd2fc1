"""Ways of getting the two times wrong, each with the promises whose judges have to notice it."""

from collections.abc import Callable

import pytest

from driftq.core.jobs.table import JobTable
from driftq.core.snapshot import components as snapshot_components
from driftq.server import clock
from driftq.server.clock import WallWatch
from driftq.testing.clock import VirtualClock

Sabotage = Callable[[pytest.MonkeyPatch], None]

INSTANTS = {"P2", "P3", "J11"}


def judge_instants_by_engine_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """One start with the clock a day ahead lasts: later deadlines are past, and jobs run early."""
    monkeypatch.setattr(VirtualClock, "wall", VirtualClock.now)


def believe_a_step_of_the_clock_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WallWatch, "read", lambda self, wall, steady: wall)


def never_believe_a_step_of_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "HOLD_MS", 1 << 60)


def take_run_at_for_engine_time(monkeypatch: pytest.MonkeyPatch) -> None:
    wait = JobTable.wait

    def mixed(self: JobTable, offset: int, due_at: int, *, by_wall: bool = False) -> None:
        wait(self, offset, due_at)

    monkeypatch.setattr(JobTable, "wait", mixed)


def forget_the_kind_of_due_times_in_the_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_components, "_FLAGS", ("states", "priorities"))
    monkeypatch.setattr(snapshot_components, "_instants", lambda jobs, last_at: bytearray(len(jobs.states)))


CAUGHT: list[tuple[Sabotage, set[str]]] = [
    (judge_instants_by_engine_time, INSTANTS),
    (believe_a_step_of_the_clock_at_once, INSTANTS),
    (never_believe_a_step_of_the_clock, INSTANTS),
    (take_run_at_for_engine_time, {"J11"}),
    (forget_the_kind_of_due_times_in_the_snapshot, {"J11"}),
]
