"""What may happen to a schedule: how it is decided, and how its record is folded."""

from __future__ import annotations

from driftq.core.records import Record
from driftq.core.schedules.records import (
    NO_JOB,
    SchedulePaused,
    ScheduleRecord,
    ScheduleRemoved,
    ScheduleSet,
    SchedulesFired,
    ScheduleTerms,
)
from driftq.core.schedules.table import Schedule, ScheduleTable
from driftq.errors import ScheduleExists, ScheduleNotFound


def require_schedule(table: ScheduleTable, name: str) -> Schedule:
    schedule = table.schedules.get(name)
    if schedule is None:
        raise ScheduleNotFound(name)
    return schedule


def decide_set(
    table: ScheduleTable, terms: ScheduleTerms, *, next_at: int, replace: bool, now: int
) -> ScheduleSet | None:
    """Create the schedule, or replace it; None when it is there with the same terms."""
    known = table.schedules.get(terms.name)
    if known is not None:
        if known.terms == terms:
            return None
        if not replace:
            raise ScheduleExists(terms.name)
    return ScheduleSet(at=now, terms=terms, next_at=next_at)


def decide_remove(table: ScheduleTable, name: str, *, now: int) -> ScheduleRemoved:
    require_schedule(table, name)
    return ScheduleRemoved(at=now, name=name)


def decide_pause(
    table: ScheduleTable, name: str, *, paused: bool, next_at: int, now: int
) -> SchedulePaused | None:
    """Pause or resume; None when it is so already."""
    if require_schedule(table, name).paused == paused:
        return None
    return SchedulePaused(at=now, name=name, paused=paused, next_at=next_at)


def fold_schedule(table: ScheduleTable, record: Record) -> None:
    """Apply a record of schedules to the table."""
    assert isinstance(record, ScheduleRecord)
    match record:
        case ScheduleSet():
            _set(table, record)
        case ScheduleRemoved():
            removed = table.schedules.pop(record.name)
            table.removed.remember(record.name, removed.last_at, at=record.at)
        case SchedulesFired():
            for fire in record.fires:
                schedule = table.schedules[fire.name]
                schedule.last_at, schedule.next_at = fire.fire_at, fire.next_at
                if fire.offset != NO_JOB:
                    schedule.last_job = fire.offset
                    schedule.fired += 1
                table.put(schedule)
        case SchedulePaused():
            schedule = table.schedules[record.name]
            schedule.paused, schedule.next_at = record.paused, record.next_at
            table.put(schedule)


def _set(table: ScheduleTable, record: ScheduleSet) -> None:
    name = record.terms.name
    schedule = table.schedules.get(name)
    if schedule is None:
        last_at = table.last_fire(name, now=record.at)
        schedule = Schedule(record.terms, created_at=record.at, next_at=record.next_at, last_at=last_at)
    schedule.terms, schedule.next_at = record.terms, record.next_at
    table.put(schedule)
