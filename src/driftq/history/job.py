"""The timeline of a job: how it was stored, its runs, and how it ended.

The same fold serves a round of the housekeeper, which sees all jobs but perhaps not their beginnings, and
a reader that follows one job through the tail of the log.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from driftq.core.jobs.records import (
    JobCancelled,
    JobRequeued,
    JobsClaimed,
    JobsCompleted,
    JobsEnqueued,
    JobsFailed,
)
from driftq.core.jobs.table import is_by_wall
from driftq.core.jobs.transitions import CANCELLED, failure_text
from driftq.core.jobs.unblocking import JobsUnblocked, abandoned_text
from driftq.core.records import MessagesStored, Record, unpack_array
from driftq.storage.entry import without_large_payload

if TYPE_CHECKING:
    import sqlite3


class JobRun(msgspec.Struct, gc=False):
    """One run of a job; without an end while it is running."""

    owner: str
    started_at: int
    ended_at: int | None = None
    error: str | None = None


class JobTimeline(msgspec.Struct):
    """The facts of one job in the records; None where they have none."""

    entry: bytes | None = None
    due_at: int | None = None
    state: str | None = None
    """`succeeded` or `dead`; empty while it is neither."""
    ended_at: int | None = None
    last_error: str | None = None
    result: str | None = None
    requeued_at: int | None = None
    runs: dict[int, JobRun] = msgspec.field(default_factory=dict)
    """By token."""
    cut: tuple[int, str | None] | None = None
    """When and how a run ended that had begun before these records."""

    @property
    def attempts(self) -> int:
        """Since it was enqueued or requeued."""
        return sum(run.started_at >= (self.requeued_at or 0) for run in self.runs.values())

    def end_run(self, at: int, error: str | None) -> None:
        """End the current run, if there is one."""
        newest = self.runs[max(self.runs)] if self.runs else None
        if newest is None:
            self.cut = (at, error)
        elif newest.ended_at is None:
            newest.ended_at, newest.error = at, error

    def finish(self, state: str, at: int, error: str, result: str | None = None) -> None:
        self.state, self.ended_at, self.last_error, self.result = state, at, error, result


class JobTimelines:
    """Folds records into the timelines of all jobs, or of some."""

    def __init__(self, histories: dict[int, JobTimeline] | None = None) -> None:
        self._some = histories is not None
        self.histories: dict[int, JobTimeline] = histories if histories is not None else {}

    def _of(self, offsets: Iterable[int]) -> Iterable[tuple[int, JobTimeline]]:
        """The index and the timeline of each of these that is followed."""
        for number, offset in enumerate(offsets):
            past = self.histories.get(offset)
            if past is None and not self._some:
                past = self.histories[offset] = JobTimeline()
            if past is not None:
                yield number, past

    def stored(self, record: MessagesStored, payload: memoryview, blob_at: int) -> None:
        """Messages of the topic that keeps jobs."""
        lengths = unpack_array("I", record.lengths)
        places = []
        for length in lengths:
            places.append((blob_at, blob_at + length))
            blob_at += length
        for slot, past in self._of(range(record.first_offset, record.first_offset + len(lengths))):
            start, stop = places[slot]
            past.entry = without_large_payload(bytes(payload[start:stop]))

    def see(self, record: Record) -> None:
        match record:
            case JobsEnqueued():
                for number, past in self._of([terms.offset for terms in record.jobs]):
                    terms = record.jobs[number]
                    past.due_at = terms.run_at if is_by_wall(terms, at=record.at) else record.at
            case JobsClaimed():
                for number, past in self._of(record.offsets):
                    past.runs[record.first_token + number] = JobRun(record.owner, record.at)
            case JobsCompleted():
                for number, past in self._of(record.offsets):
                    past.end_run(record.at, None)
                    past.finish("succeeded", record.at, "", record.results[number])
            case JobsFailed():
                for number, past in self._of([failed.offset for failed in record.jobs]):
                    failed = record.jobs[number]
                    error = failure_text(record, failed)
                    past.end_run(record.at, error)
                    if failed.due_at >= 0:
                        past.due_at, past.last_error = failed.due_at, error
                    else:
                        past.finish("dead", record.at, error)
            case JobCancelled():
                for _, past in self._of([record.offset]):
                    past.end_run(record.at, CANCELLED)
                    past.finish("dead", record.at, CANCELLED)
            case JobsUnblocked():
                for _, past in self._of(record.ready):
                    past.due_at = max(past.due_at or 0, record.at)
                for number, past in self._of([child for child, _ in record.abandoned]):
                    past.finish("dead", record.at, abandoned_text(record.abandoned[number][1]))
            case JobRequeued():
                for _, past in self._of([record.offset]):
                    past.state, past.requeued_at, past.due_at = "", record.at, record.at


def read_job(database: sqlite3.Connection | None, offset: int) -> JobTimeline:
    """This job in the history."""
    past = JobTimeline()
    if database is None:
        return past
    columns = "entry, due_at, state, ended_at, last_error, result, requeued_at"
    row = database.execute(f'SELECT {columns} FROM jobs WHERE "offset" = ?', (offset,)).fetchone()
    if row is not None:
        past = JobTimeline(*row)
    runs = 'SELECT token, owner, started_at, ended_at, error FROM job_runs WHERE "offset" = ? ORDER BY token'
    past.runs = {token: JobRun(*rest) for token, *rest in database.execute(runs, (offset,))}
    return past
