"""Schedules in the engine's turn: requests about them, and the fires that are due.

Fire times are instants of the wall clock. A fire and its job are in one frame, and the fire moves the
schedule on: after a crash both are there, or the fire is still due.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from driftq.core.schedules.table import Schedule, ScheduleTable
from driftq.core.schedules.transitions import decide_pause, decide_remove, decide_set, require_schedule
from driftq.errors import DriftQError
from driftq.server.jobs.requests import EnqueueRequest
from driftq.server.schedules.cron import next_fire
from driftq.server.schedules.firing import FIRES_A_TURN, Firing, fires_due, scheduled_job
from driftq.server.schedules.requests import (
    PauseScheduleRequest,
    RemoveScheduleRequest,
    RunScheduleRequest,
    SchedulesRequest,
    SetScheduleRequest,
)
from driftq.server.turn import RequestQueue, Turn


class SchedulesStage(RequestQueue[SchedulesRequest]):
    """Comes before the stage of jobs, so that a claim of the same turn gets what has just been fired."""

    handles: ClassVar = (
        SetScheduleRequest,
        RemoveScheduleRequest,
        PauseScheduleRequest,
        RunScheduleRequest,
    )

    def __init__(self, schedules: Callable[[], ScheduleTable]) -> None:
        super().__init__()
        self._schedules = schedules
        self._lead_ms = 0
        """How far engine time was ahead of the wall clock in the latest turn."""

    @property
    def next_at(self) -> int | None:
        """The next fire, in engine time; a turn runs at least once a tick, in case the wall clock moves."""
        table = self._schedules()
        at = table.next_at() if table.schedules else None
        return at + self._lead_ms if at is not None else None

    def decide(self, turn: Turn) -> None:
        self._lead_ms = turn.now - turn.wall
        if self.requests:
            for request in self.take():
                self._answer(turn, request)
        if turn.state.schedules.schedules and not turn.quiet and not turn.stopping:
            _fire(turn)

    def _answer(self, turn: Turn, request: SchedulesRequest) -> None:
        answer: int | DriftQError | None = None
        try:
            match request:
                case SetScheduleRequest():
                    answer = _set(turn, request)
                case RemoveScheduleRequest():
                    turn.journal.add(decide_remove(turn.state.schedules, request.name, now=turn.now))
                case PauseScheduleRequest():
                    _pause(turn, request)
                case RunScheduleRequest():
                    schedule = require_schedule(turn.state.schedules, request.name)
                    turn.submit(EnqueueRequest([scheduled_job(schedule, None)], request.reply))
                    return
        except DriftQError as refused:
            answer = refused
        turn.reply(request, answer)


def _set(turn: Turn, request: SetScheduleRequest) -> int:
    table, terms = turn.state.schedules, request.terms
    known = table.schedules.get(terms.name)
    if known is not None and (known.terms.cron, known.terms.timezone) == (terms.cron, terms.timezone):
        next_at = known.next_at
    else:
        since = max(turn.wall, table.last_fire(terms.name, now=turn.now))
        next_at = next_fire(terms.cron, terms.timezone, since)
    record = decide_set(table, terms, next_at=next_at, replace=request.replace, now=turn.now)
    if record is not None:
        turn.journal.add(record)
    return 201 if known is None else 200


def _pause(turn: Turn, request: PauseScheduleRequest) -> None:
    """A resumed schedule goes on with its next fire time; those of the pause are not made up for."""
    table = turn.state.schedules
    schedule = require_schedule(table, request.name)
    next_at = schedule.next_at
    if not request.paused:
        since = max(turn.wall, schedule.last_at)
        next_at = next_fire(schedule.terms.cron, schedule.terms.timezone, since)
    record = decide_pause(table, request.name, paused=request.paused, next_at=next_at, now=turn.now)
    if record is not None:
        turn.journal.add(record)


def _fire(turn: Turn) -> None:
    """What is due, up to a bound; the rest is due in the next turn."""
    due: list[Schedule] = turn.state.schedules.due(turn.wall, limit=FIRES_A_TURN)
    if not due:
        return
    firing = Firing(turn)
    left = FIRES_A_TURN
    for schedule in due:
        if not left:
            break
        for fire in fires_due(schedule, wall=turn.wall, limit=left):
            firing.add(schedule, fire)
            left -= 1
    firing.flush()
