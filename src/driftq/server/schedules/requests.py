"""Requests about schedules, each with the call that takes its answer."""

from __future__ import annotations

from dataclasses import dataclass

from driftq.core.schedules.records import ScheduleTerms
from driftq.server.requests import Reply


@dataclass(frozen=True, slots=True)
class SetScheduleRequest:
    """Create or replace a schedule; answered by the status: 201 for a new one, else 200."""

    terms: ScheduleTerms
    replace: bool
    reply: Reply


@dataclass(frozen=True, slots=True)
class RemoveScheduleRequest:
    name: str
    reply: Reply


@dataclass(frozen=True, slots=True)
class PauseScheduleRequest:
    """Pause or resume a schedule; answered by None."""

    name: str
    paused: bool
    reply: Reply


@dataclass(frozen=True, slots=True)
class RunScheduleRequest:
    """Enqueue a schedule's job now, besides its fires; answered by an EnqueuedJob."""

    name: str
    reply: Reply


SchedulesRequest = SetScheduleRequest | RemoveScheduleRequest | PauseScheduleRequest | RunScheduleRequest
