"""Judges schedules: each due time fires once, none early, and with the policy `all` none is left out.

Fire times are computed a second time, without a calendar: the schedules of a run fire at whole multiples of
their period.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from driftq.model.time import parse_rfc3339
from driftq.testing.checkers import require


@dataclass(slots=True)
class PeriodicSchedule:
    """A schedule whose fire times are the multiples of a period."""

    name: str
    cron: str
    period_ms: int
    missed: str
    undisturbed: bool = True
    """It was never paused, replaced or removed."""
    since: int | None = None
    """Its first fire time, as the server said when it was created."""
    fires: dict[int, int] = field(default_factory=dict)
    """The job of each fire time."""


class ScheduleChecker:
    """Sees the jobs of schedules when workers get them."""

    def __init__(self) -> None:
        self.schedules: dict[str, PeriodicSchedule] = {}

    def fired(self, key: str, offset: int, *, wall: int) -> None:
        """A job with the key of a fire; `wall` is the latest time that any clock has shown."""
        _, name, instant = key.split(":", 2)
        schedule, at = self.schedules[name], parse_rfc3339(instant)
        known = schedule.fires.setdefault(at, offset)
        require(known == offset, "J15", f"{name} fired {instant} twice: jobs {known} and {offset}")
        require(at % schedule.period_ms == 0, "J15", f"{name} fired at {instant}, which is not its time")
        require(at <= wall, "J15", f"{name} fired {instant} before its time")

    def ended(self, *, wall: int) -> None:
        """The run is idle: which due times never fired."""
        for schedule in self.schedules.values():
            if schedule.since is None or not schedule.undisturbed or schedule.missed == "skip":
                continue
            last = wall // schedule.period_ms * schedule.period_ms
            if schedule.missed == "last":
                due = {max(schedule.fires, default=0)} if last < schedule.since else {last}
                due = due if last >= schedule.since else set()
            else:
                due = set(range(schedule.since, last + 1, schedule.period_ms))
            missing = sorted(due - schedule.fires.keys() - {0})
            story = f"{schedule.name} ({schedule.missed}) never fired {missing[:3]} of {len(due)} times"
            require(not missing or max(schedule.fires, default=0) > last, "J15", story)
            gaps = [at for at in due if at not in schedule.fires and at <= max(schedule.fires, default=0)]
            require(
                schedule.missed == "last" or not gaps, "J15", f"{schedule.name} left out {sorted(gaps)[:3]}"
            )
