"""Dead jobs, for requests that select some of them."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from driftq.core.jobs.table import JOBS_TOPIC, JobState
from driftq.core.state import State
from driftq.errors import NotConfirmed
from driftq.server.jobs.views import JobReader
from driftq.storage.entry import decode_job


class DeadJob(msgspec.Struct, frozen=True, gc=False):
    """What the table knows of a dead job."""

    offset: int
    last_error: str
    ended_at: int
    """When it became dead; when it was due if it never ran and has no key."""


def dead_jobs(state: State, *, queue: str | None, start: int, limit: int) -> tuple[list[DeadJob], int | None]:
    """Dead jobs from an offset on, and the offset to go on from when there may be more."""
    found: list[DeadJob] = []
    if JOBS_TOPIC not in state.topics:
        return found, None
    jobs = state.jobs
    for offset in jobs.offsets(queue=queue, state=JobState.DEAD, start=start):
        if len(found) == limit:
            return found, offset
        runs = jobs.histories.get(offset)
        last = runs[-1].ended_at if runs else jobs.due[offset - jobs.base]
        found.append(DeadJob(offset, jobs.errors.get(offset, ""), jobs.ended_at.get(offset, last)))
    return found, None


async def read_tasks(reader: JobReader, offsets: list[int]) -> list[str]:
    """The names of the tasks of these jobs, in order; raises NotConfirmed."""
    answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    reader.entries(offsets, answer.set_result)
    entries = await answer
    if isinstance(entries, NotConfirmed):
        raise entries
    return [decode_job(entry).task for entry in entries]
