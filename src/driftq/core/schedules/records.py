"""The records of schedules.

The core knows no calendar: whoever decides brings the next fire time along, and the record holds it.
"""

import msgspec

from driftq.core.records import Record, register
from driftq.model.job import RetryTiming

NEVER = -1
"""The next fire time of an expression that matches no further time."""
NO_JOB = -1
"""In place of a job: the fire was missed, and the policy passes over it."""


class ScheduleTerms(msgspec.Struct, array_like=True, frozen=True):
    """A schedule as its owner wrote it."""

    name: str
    cron: str
    timezone: str
    queue: str
    task: str
    payload: str
    """JSON text."""
    missed: str
    """`skip`, `last` or `all`."""
    priority: int
    max_retries: int
    timeout_ms: int = 0
    """0 is no limit."""
    retry: RetryTiming | None = None


class ScheduleRecord(Record):
    """A record of schedules."""


class ScheduleSet(ScheduleRecord):
    """A schedule is new, or replaces the one of its name."""

    terms: ScheduleTerms
    next_at: int
    """An instant of the wall clock, as all fire times are."""


class ScheduleRemoved(ScheduleRecord):
    name: str


class ScheduleFire(msgspec.Struct, array_like=True, gc=False):
    """One fire time, and the one after it."""

    name: str
    fire_at: int
    next_at: int
    offset: int
    """The job, or NO_JOB."""


class SchedulesFired(ScheduleRecord):
    """Schedules have fired; their jobs are in the same frame."""

    fires: list[ScheduleFire]


class SchedulePaused(ScheduleRecord):
    """The schedule does not fire from now on, or does so again."""

    name: str
    paused: bool
    next_at: int


register(50, ScheduleSet)
register(51, ScheduleRemoved)
register(52, SchedulesFired)
register(53, SchedulePaused)
