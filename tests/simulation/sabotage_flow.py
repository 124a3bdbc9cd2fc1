"""Ways of breaking schedules, limits, pauses and dependencies, each with the promise that it breaks.

For the runs of `flow_simulator`.
"""

from collections.abc import Callable

import pytest

from driftq.core.jobs.dependencies import SUCCEEDED, Dependencies
from driftq.core.jobs.flow import FlowControl, QueueFlow
from driftq.core.jobs.limits import FREE, ClaimMeter
from driftq.core.jobs.turns import KeyTurns
from driftq.core.schedules.table import ScheduleTable
from driftq.server.schedules import cron, firing
from driftq.storage.journal import Journal

Sabotage = Callable[[pytest.MonkeyPatch], None]


def _after_recovery(monkeypatch: pytest.MonkeyPatch, spoil: Callable[..., None]) -> None:
    recover = Journal.recover

    def forgetful(self: Journal):
        found = recover(self)
        spoil(self.state)
        return found

    monkeypatch.setattr(Journal, "recover", forgetful)


def limit_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ClaimMeter, "free_at", lambda self, limit, now: FREE)


def count_only_this_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases of earlier claims do not count."""
    claimed = ClaimMeter.claimed

    def forgetful(self: ClaimMeter, rate, at) -> None:
        claimed(self, rate, at)
        self.in_flight -= 1

    monkeypatch.setattr(ClaimMeter, "claimed", forgetful)
    monkeypatch.setattr(FlowControl, "released", lambda self, jobs, offset: None)


def count_a_rate_in_fixed_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many at the end of one window as at the start of the next."""
    trim = ClaimMeter.trim

    def fixed(self: ClaimMeter, rate, now) -> None:
        trim(self, rate, now)
        if rate is not None:
            while self.times and self.times[0] // rate.per_ms < now // rate.per_ms:
                self.times.popleft()

    def free_at(self: ClaimMeter, limit, now):
        if limit.rate is not None:
            fixed(self, limit.rate, now)
        return original(self, limit, now)

    original = ClaimMeter.free_at
    monkeypatch.setattr(ClaimMeter, "free_at", free_at)


def forget_claims_at_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(state) -> None:
        for flow in state.jobs.flow.queues.values():
            flow.meter.times.clear()
            flow.meter.in_flight = 0
            for key in flow.turns.keys.values() if flow.turns is not None else ():
                key.times.clear()
                key.in_flight = 0

    _after_recovery(monkeypatch, spoil)


def never_return_from_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that was at its limit once gets no more turns."""
    monkeypatch.setattr(KeyTurns, "unpark", lambda self, jobs, key: None)


def resume_queues_at_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(state) -> None:
        for flow in state.jobs.flow.queues.values():
            flow.paused = False

    _after_recovery(monkeypatch, spoil)


def pause_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        QueueFlow, "is_open", lambda self, now: self.meter.free_at(self.limits.queue, now) == FREE
    )


def wait_for_one_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = Dependencies.ended

    def hasty(self: Dependencies, offset: int, *, succeeded: bool) -> None:
        for child in self.children.get(offset, ()):
            if succeeded and child in self.unmet:
                self.outcomes.setdefault(child, SUCCEEDED)
        ended(self, offset, succeeded=succeeded)

    monkeypatch.setattr(Dependencies, "ended", hasty)


def run_after_a_dead_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dead parent counts as one that is done."""
    ended = Dependencies.ended
    monkeypatch.setattr(
        Dependencies, "ended", lambda self, offset, *, succeeded: ended(self, offset, succeeded=True)
    )


def leave_children_blocked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("driftq.server.jobs.stage.decide_unblocked", lambda jobs, now: None)


def fire_without_moving_on_at_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    """A restart takes the latest fire for one that is still due."""

    def spoil(state) -> None:
        for schedule in state.schedules.schedules.values():
            if schedule.last_at > 0:
                schedule.next_at = schedule.last_at
                state.schedules.put(schedule)

    _after_recovery(monkeypatch, spoil)


def drop_missed_fires(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the policy says."""
    due = cron.fires_between
    monkeypatch.setattr(
        firing,
        "fires_between",
        lambda cron, zone, first, last, limit: due(cron, zone, first, last, limit=limit)[-1:],
    )


def fire_early(monkeypatch: pytest.MonkeyPatch) -> None:
    due = ScheduleTable.due
    monkeypatch.setattr(
        ScheduleTable, "due", lambda self, wall, limit: due(self, wall + 3_600_000, limit=limit)
    )


CAUGHT: list[tuple[Sabotage, set[str]]] = [
    (limit_nothing, {"J18"}),
    (count_only_this_claim, {"J18", "J1"}),
    (count_a_rate_in_fixed_windows, {"J18"}),
    (forget_claims_at_a_restart, {"J18", "J1"}),
    (never_return_from_a_limit, {"J1"}),
    (resume_queues_at_a_restart, {"J20"}),
    (pause_nothing, {"J20"}),
    (wait_for_one_parent, {"J19"}),
    (run_after_a_dead_parent, {"J19"}),
    (leave_children_blocked, {"J1"}),
    (fire_without_moving_on_at_a_restart, {"J15"}),
    (drop_missed_fires, {"J15"}),
    (fire_early, {"J15"}),
]
