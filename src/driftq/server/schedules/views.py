"""Schedules as clients see them."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from driftq.core.jobs.table import job_id
from driftq.core.schedules.records import NEVER, NO_JOB
from driftq.core.schedules.table import Schedule, ScheduleTable
from driftq.model.time import rfc3339
from driftq.model.wire.queues import SchedulesReply, ScheduleView
from driftq.server.jobs.views import retry_view
from driftq.server.walk import Walk, in_order

_UNITS_A_VIEW = 10


def schedule_view(schedule: Schedule) -> ScheduleView:
    terms = schedule.terms
    fires = not schedule.paused and schedule.next_at != NEVER
    return ScheduleView(
        name=terms.name,
        cron=terms.cron,
        timezone=terms.timezone,
        queue=terms.queue,
        task=terms.task,
        payload=msgspec.Raw(terms.payload.encode()),
        missed=terms.missed,
        priority=terms.priority,
        max_retries=terms.max_retries,
        retry=None if terms.retry is None else retry_view(terms.retry, max_retries=terms.max_retries),
        timeout_ms=terms.timeout_ms or None,
        paused=schedule.paused,
        next_at=rfc3339(schedule.next_at) if fires else None,
        last_at=rfc3339(schedule.last_at) if schedule.last_at != NEVER else None,
        last_job_id=job_id(schedule.last_job) if schedule.last_job != NO_JOB else None,
        fired=schedule.fired,
        created_at=rfc3339(schedule.created_at),
    )


def walk_schedules(
    table: ScheduleTable, *, limit: int, after: str, shown: Callable[[str], bool]
) -> Walk[SchedulesReply]:
    """Schedules by name, those after a name that are to be shown."""

    def wanted(name: str) -> bool:
        return name > after and shown(name)

    names = yield from in_order(table.schedules, wanted, at_most=limit + 1)
    views: list[ScheduleView] = []
    for name in names[:limit]:
        schedule = table.schedules.get(name)
        if schedule is not None:  # Removed since its name was read.
            views.append(schedule_view(schedule))
        yield _UNITS_A_VIEW
    return SchedulesReply(views, names[limit - 1] if len(names) > limit else None)
