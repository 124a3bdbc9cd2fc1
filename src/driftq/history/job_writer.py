"""Jobs in the history: stored for a while after the broker has evicted them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from driftq.core.jobs.table import JOBS_TOPIC
from driftq.core.records import MessagesStored, Record
from driftq.core.state import State
from driftq.history.job import JobTimeline, JobTimelines, read_job
from driftq.history.tail import read_with_tail, scan
from driftq.log.files import Folder
from driftq.log.frame import LogEnd

if TYPE_CHECKING:
    import sqlite3

_FORGOTTEN_AT_ONCE = 50_000

_JOB = """
INSERT INTO jobs VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
    entry = coalesce(excluded.entry, entry), due_at = coalesce(excluded.due_at, due_at),
    state = coalesce(excluded.state, state), ended_at = coalesce(excluded.ended_at, ended_at),
    last_error = coalesce(excluded.last_error, last_error), result = coalesce(excluded.result, result),
    requeued_at = coalesce(excluded.requeued_at, requeued_at)
"""


class JobHistory:
    """The part of the history that is about jobs; it is written in the history's transaction."""

    def __init__(self) -> None:
        self._folding = JobTimelines()

    def see(self, state: State, record: Record, payload: memoryview, blob_at: int) -> None:
        if not isinstance(record, MessagesStored):
            self._folding.see(record)
        elif state.topics_by_id[record.topic].name == JOBS_TOPIC:
            self._folding.stored(record, payload, blob_at)

    def write(self, database: sqlite3.Connection, state: State) -> None:
        histories = self._folding.histories
        database.executemany(
            _JOB,
            (
                (
                    offset,
                    past.entry,
                    past.due_at,
                    past.state,
                    past.ended_at,
                    past.last_error,
                    past.result,
                    past.requeued_at,
                )
                for offset, past in histories.items()
            ),
        )
        database.executemany(
            'UPDATE job_runs SET ended_at = ?, error = ? WHERE "offset" = ? AND ended_at IS NULL',
            ((*past.cut, offset) for offset, past in histories.items() if past.cut is not None),
        )
        database.executemany(
            "INSERT OR REPLACE INTO job_runs VALUES (?, ?, ?, ?, ?, ?)",
            (
                (offset, token, run.owner, run.started_at, run.ended_at, run.error)
                for offset, past in histories.items()
                for token, run in past.runs.items()
            ),
        )
        _forget(database, state)


def _forget(database: sqlite3.Connection, state: State) -> None:
    """Remove jobs that ended long ago and that the broker has evicted; of the others only the results."""
    over_at = state.last_at - state.limits.jobs_kept_ms
    database.execute(
        "UPDATE jobs SET result = NULL WHERE state <> '' AND ended_at <= ? AND result IS NOT NULL", (over_at,)
    )
    gone = 'SELECT "offset" FROM jobs WHERE state <> \'\' AND ended_at <= ? AND "offset" < ? LIMIT ?'
    old = (over_at, state.jobs.base, _FORGOTTEN_AT_ONCE)
    database.execute(f'DELETE FROM job_runs WHERE "offset" IN ({gone})', old)
    database.execute(f'DELETE FROM jobs WHERE "offset" IN ({gone})', old)


def read_job_history(
    folder: Folder, history: str | None, offset: int, *, topic: int, end: LogEnd
) -> JobTimeline:
    """Everything that happened to this job up to a confirmed end; `topic` is the one of jobs. Blocks."""
    past, files = read_with_tail(folder, history, lambda found: read_job(found, offset), end=end)
    folding = JobTimelines({offset: past})

    def see(record: Record, payload: memoryview, blob_at: int) -> None:
        if not isinstance(record, MessagesStored):
            folding.see(record)
        elif record.topic == topic:
            folding.stored(record, payload, blob_at)

    scan(folder, files, see, end=end)
    return past
