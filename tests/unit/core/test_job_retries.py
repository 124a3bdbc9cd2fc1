"""Each job is retried by its own timing, after a restart and from a snapshot too."""

import msgspec
import pytest

from driftq.core.jobs.records import JobsEnqueued, JobTerms
from driftq.core.jobs.retries import RetryTimings, wait_ms
from driftq.core.jobs.table import JobTable
from driftq.model.job import FIRST_TIMING, RetryTiming
from tests.unit.core.job_machine import PureJobs

PATIENT = RetryTiming(2_000, 3_600_000)
STEADY = RetryTiming(100, 300, full_jitter=False)


@pytest.fixture
def jobs() -> PureJobs:
    return PureJobs()


def due_after_failure(jobs: PureJobs, offset: int) -> int:
    """How long a job waits for its next attempt, after one that failed."""
    ((claimed, token),) = jobs.claim()
    assert claimed == offset
    jobs.fail(offset, token)
    return jobs.table.due[offset - jobs.table.base] - jobs.now


@pytest.mark.clause("J14")
def test_the_wait_doubles_from_the_base_up_to_the_cap() -> None:
    for attempt in range(1, 60):
        longest = min(2_000 * 2 ** (attempt - 1), 3_600_000)
        assert wait_ms(PATIENT, attempt, 1.0) == longest
        assert wait_ms(PATIENT, attempt, 0.25) == longest // 4
        assert wait_ms(PATIENT, attempt, 0.0) == 0


@pytest.mark.clause("J14")
def test_without_jitter_chance_changes_nothing() -> None:
    assert [wait_ms(STEADY, attempt, 0.123) for attempt in (1, 2, 3, 4)] == [100, 200, 300, 300]


@pytest.mark.clause("J14", "J8")
def test_each_job_keeps_its_own_timing(jobs: PureJobs) -> None:
    plain = jobs.enqueue(priority=9)
    steady = jobs.enqueue(priority=8, retry=STEADY)
    patient = jobs.enqueue(priority=7, retry=PATIENT)
    assert due_after_failure(jobs, plain) == 500
    assert due_after_failure(jobs, steady) == 100
    assert due_after_failure(jobs, patient) == 2_000


@pytest.mark.clause("J14", "W2")
def test_a_restart_decides_nothing_again(jobs: PureJobs) -> None:
    """The instant of a retry is in the record: another chance after the restart does not move it."""
    offset = jobs.enqueue(retry=PATIENT)
    jobs.jitter = 0.5
    assert due_after_failure(jobs, offset) == 1_000
    due = jobs.table.due[0]
    jobs.jitter = 0.9
    jobs.restart()
    assert jobs.table.due[0] == due
    assert jobs.table.retries.at(0) == PATIENT


@pytest.mark.clause("J14", "O6")
def test_a_job_of_an_older_log_has_the_timing_of_its_time(jobs: PureJobs) -> None:
    old = msgspec.msgpack.encode([[0, "mail", 5, jobs.now, 3, 0, 0, False]])
    jobs.fold(JobsEnqueued(at=jobs.now, jobs=msgspec.msgpack.decode(old, type=list[JobTerms])))
    assert due_after_failure(jobs, 0) == 500


@pytest.mark.clause("J14", "W2", "O6")
def test_timings_survive_a_snapshot_and_an_older_snapshot_has_none() -> None:
    timings = RetryTimings()
    for timing in (None, PATIENT, STEADY, PATIENT):
        timings.numbers.append(timings.number_of[timing])
    parts = {name: memoryview(part) for name, part in timings.dump().items()}
    loaded = RetryTimings()
    loaded.load(parts, slots=4)
    assert [loaded.at(slot) for slot in range(4)] == [FIRST_TIMING, PATIENT, STEADY, PATIENT]
    older = RetryTimings()
    older.load({}, slots=2)
    assert [older.at(slot) for slot in range(2)] == [FIRST_TIMING, FIRST_TIMING]
    older.numbers.append(older.number_of[STEADY])
    assert older.at(2) == STEADY


def test_timings_that_no_job_has_any_more_are_dropped() -> None:
    timings = RetryTimings()
    for number in range(500):
        timings.numbers.append(timings.number_of[RetryTiming(number, 1_000_000)])
    timings.drop(499)
    assert timings.at(0) == RetryTiming(499, 1_000_000)
    assert len(msgspec.msgpack.decode(timings.dump()["jobs.timings"])) == 2


@pytest.mark.clause("J23")
def test_a_result_is_dropped_when_its_time_is_over(jobs: PureJobs) -> None:
    jobs.table = JobTable(kept_ms=1_000)
    first, second = jobs.enqueue(), jobs.enqueue()
    jobs.complete(*jobs.claim()[0], '"first"')
    jobs.pass_time(600)
    jobs.complete(*jobs.claim()[0], '"second"')
    assert jobs.table.results == {first: '"first"', second: '"second"'}
    jobs.pass_time(400)
    assert jobs.table.results == {second: '"second"'}
    jobs.pass_time(600)
    assert (jobs.table.results, jobs.table.histories, jobs.table.recent_bytes) == ({}, {}, 0)
    assert jobs.state(first) == "succeeded"


@pytest.mark.clause("J16")
def test_the_table_notes_the_ends_that_are_awaited_whatever_ends_them(jobs: PureJobs) -> None:
    done, given_up, cancelled, expired, unwatched, retried = (jobs.enqueue() for _ in range(6))
    jobs.table.awaited = {done, given_up, cancelled, expired, retried}
    tokens = dict(jobs.claim(limit=6))
    jobs.complete(done, tokens[done])
    jobs.fail(given_up, tokens[given_up], retryable=False)
    jobs.cancel(cancelled)
    jobs.complete(unwatched, tokens[unwatched])
    jobs.fail(retried, tokens[retried])
    assert jobs.table.awaited_ends == [done, given_up, cancelled]
    jobs.table.max_retries[expired] = 0
    jobs.pass_time(2_000)
    assert jobs.table.awaited_ends == [done, given_up, cancelled, expired]
