"""Requests about jobs, each with the call that takes its answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from driftq.core.jobs.records import JobsClaimed
from driftq.core.jobs.table import JobTable
from driftq.core.jobs.transitions import Settlement, decide_cancel, decide_heartbeat, decide_requeue
from driftq.core.records import Record
from driftq.model.job import JobRequest
from driftq.server.requests import Reply


@dataclass(frozen=True, slots=True)
class EnqueueRequest:
    """New jobs; answered by a list with an EnqueuedJob or an error for each."""

    jobs: list[JobRequest]
    reply: Reply


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """Jobs for one owner; answered by JobsGranted, or None when there was none in time."""

    queues: list[str]
    owner: str
    lease_ms: int
    limit: int
    until: int
    """How long to wait for jobs."""
    reply: Reply


@dataclass(frozen=True, slots=True)
class JobsGranted:
    """The jobs of a claim, with the number of the attempt that each job begins."""

    record: JobsClaimed
    attempts: list[int]
    entries: list[bytes] | None
    """Their stored forms; None when they have to be read from the disk."""


@dataclass(frozen=True, slots=True)
class SettleRequest:
    """Settlements of runs; answered by a list with None or an error for each."""

    settlements: list[Settlement]
    reply: Reply


@dataclass(frozen=True, slots=True)
class JobAction:
    """Heartbeat, cancel or requeue of one job; answered by None."""

    decide: Callable[[JobTable, int, int], Record]
    """Given the jobs, engine time and wall time."""
    reply: Reply


def heartbeat(offset: int, *, token: int, lease_ms: int | None, reply: Reply) -> JobAction:
    return JobAction(
        lambda jobs, now, wall: decide_heartbeat(jobs, offset, token=token, lease_ms=lease_ms, now=now), reply
    )


def cancel(offset: int, reply: Reply) -> JobAction:
    return JobAction(lambda jobs, now, wall: decide_cancel(jobs, offset, now), reply)


def requeue(offset: int, reply: Reply) -> JobAction:
    return JobAction(lambda jobs, now, wall: decide_requeue(jobs, offset, now=now, wall=wall), reply)


JobsRequest = EnqueueRequest | ClaimRequest | SettleRequest | JobAction
