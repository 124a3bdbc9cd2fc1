"""The end of waiting for other jobs: how it is decided, and how its record is folded.

blocked → ready or scheduled   when the last parent has succeeded
blocked → dead                 when one parent is dead, which includes a cancelled one
"""

from __future__ import annotations

from driftq.core.jobs.dependencies import SUCCEEDED
from driftq.core.jobs.table import JobState, JobTable, job_id
from driftq.core.records import Record, register
from driftq.errors import JobNotFound


class JobsUnblocked(Record):
    """Jobs whose parents have all succeeded, and jobs of which one parent is dead: (job, parent)."""

    ready: list[int]
    abandoned: list[tuple[int, int]]


register(56, JobsUnblocked)


def check_parents(jobs: JobTable, parents: list[int]) -> str:
    """The state that a new job with these parents has; raises JobNotFound for one that is not kept."""
    state = ""
    for parent in parents:
        found = jobs.state(parent)
        if found is None:
            raise JobNotFound(job_id(parent))
        if found is JobState.DEAD:
            state = "dead"
        elif found is not JobState.SUCCEEDED and not state:
            state = "blocked"
    return state


def decide_unblocked(jobs: JobTable, *, now: int) -> JobsUnblocked | None:
    """What the latest ends mean for the jobs that waited for them; None when nothing."""
    outcomes = jobs.dependencies.outcomes
    if not outcomes:
        return None
    return JobsUnblocked(
        at=now,
        ready=[child for child, outcome in outcomes.items() if outcome == SUCCEEDED],
        abandoned=[(child, outcome) for child, outcome in outcomes.items() if outcome != SUCCEEDED],
    )


def abandoned_text(parent: int) -> str:
    """The last error of a job whose parent is dead."""
    return f"{job_id(parent)} is dead"


def fold_unblocked(jobs: JobTable, record: JobsUnblocked) -> None:
    for child in record.ready:
        jobs.dependencies.forget(child)
        slot = child - jobs.base
        if jobs.by_wall[slot]:
            jobs.wait(child, jobs.due[slot], by_wall=True)
        else:
            jobs.wait(child, record.at)
    for child, parent in record.abandoned:
        jobs.errors[child] = abandoned_text(parent)
        jobs.finish(child, JobState.DEAD, at=record.at)
