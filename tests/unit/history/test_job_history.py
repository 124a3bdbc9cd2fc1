"""Jobs in the history: each round adds what it saw, twice is once, and old ones go."""

from contextlib import closing
from pathlib import Path

import pytest

from driftq.core.jobs.records import (
    CAUSE_LEASE_ENDED,
    FailedJob,
    JobCancelled,
    JobRequeued,
    JobsClaimed,
    JobsCompleted,
    JobsEnqueued,
    JobsFailed,
    JobTerms,
)
from driftq.core.records import Record
from driftq.core.state import State
from driftq.history.file import open_history
from driftq.history.job import JobRun, JobTimeline, read_job
from driftq.history.job_writer import JobHistory
from driftq.model.options.limits import Limits

NONE = memoryview(b"")
KEPT_MS = Limits().jobs_kept_ms


def job(offset: int) -> JobTerms:
    return JobTerms(offset, "mail", 5, 0, 3, 0, 0)


def write(path: Path, records: list[Record], *, state: State | None = None) -> None:
    """A round that sees these records."""
    seen = JobHistory()
    state = state or State(Limits())
    for record in records:
        seen.see(state, record, NONE, 0)
    with closing(open_history(str(path))) as database, database:
        seen.write(database, state)


def told(path: Path, offset: int) -> JobTimeline:
    with closing(open_history(str(path))) as database:
        return read_job(database, offset)


@pytest.mark.clause("J10")
def test_what_rounds_saw_is_put_together_and_a_round_done_again_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    rounds: list[list[Record]] = [
        [JobsEnqueued(10, [job(0), job(1)]), JobsClaimed(20, "w1", 1_000, 7, [0, 1])],
        [JobsFailed(30, CAUSE_LEASE_ENDED, [FailedJob(0, 40, "")]), JobsClaimed(50, "w2", 1_000, 9, [0])],
        [JobsCompleted(60, [0], ['"done"']), JobCancelled(70, 1)],
        [JobRequeued(80, 1)],
    ]
    for records in rounds:
        for _ in range(2):
            write(path, records)
    first, second = told(path, 0), told(path, 1)
    assert first.runs == {7: JobRun("w1", 20, 30, "lease_ended"), 9: JobRun("w2", 50, 60, None)}
    assert (first.state, first.ended_at, first.last_error, first.result) == ("succeeded", 60, "", '"done"')
    assert (first.due_at, first.attempts) == (40, 2)
    assert second.runs == {8: JobRun("w1", 20, 70, "cancelled")}
    assert (second.state, second.due_at, second.attempts) == ("", 80, 0)


@pytest.mark.clause("J10", "J23")
def test_a_job_stays_a_month_after_its_end_and_longer_while_the_broker_knows_it(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    ended: list[Record] = [
        JobsEnqueued(10, [job(0), job(1)]),
        JobsClaimed(20, "w", 1_000, 1, [0, 1]),
        JobsCompleted(30, [0, 1], ['"one"', '"two"']),
    ]
    write(path, ended)
    state = State(Limits())
    state.jobs.base, state.last_at = 1, 30 + KEPT_MS - 1
    write(path, [], state=state)
    assert (told(path, 0).state, told(path, 0).result) == ("succeeded", '"one"')
    state.last_at += 1
    write(path, [], state=state)
    assert told(path, 0) == JobTimeline()
    assert told(path, 1).state == "succeeded", "the broker still has it"
    assert told(path, 1).result is None, "the time of its result is over"
