"""Which job is claimed next, for how long it is held, and when it is tried again."""

import msgspec
import pytest

from driftq.core.jobs.queue import AGE_STEP_MS
from driftq.core.jobs.records import JobsEnqueued, JobTerms
from driftq.core.jobs.retries import wait_ms
from driftq.core.jobs.table import KEY_TTL_MS
from driftq.errors import InvalidArgument, StaleLease
from driftq.model.job import FIRST_TIMING
from tests.unit.core.job_machine import PureJobs

WEEK_MS = 604_800_000


@pytest.fixture
def jobs() -> PureJobs:
    return PureJobs()


def order(jobs: PureJobs, *queues: str) -> list[int]:
    return [offset for offset, _ in jobs.claim(*queues, limit=100)]


@pytest.mark.clause("J2")
def test_equal_priority_is_first_in_first_out(jobs: PureJobs) -> None:
    enqueued = [jobs.enqueue() for _ in range(20)]
    assert [jobs.claim()[0][0] for _ in range(20)] == enqueued


@pytest.mark.clause("J3")
def test_a_larger_priority_goes_first_and_the_default_is_in_the_middle(jobs: PureJobs) -> None:
    low, plain, high, highest = (jobs.enqueue(priority=priority) for priority in (0, 5, 6, 9))
    assert order(jobs) == [highest, high, plain, low]


@pytest.mark.clause("J4")
def test_each_full_minute_of_waiting_is_worth_one_priority(jobs: PureJobs) -> None:
    old = jobs.enqueue(priority=4)
    jobs.pass_time(AGE_STEP_MS - 1)
    new = jobs.enqueue(priority=5)
    assert jobs.best() == [new, old]
    jobs.pass_time(1)
    assert jobs.best() == [old, new]  # Equal now, and due before.
    jobs.pass_time(AGE_STEP_MS - 1)
    assert jobs.best() == [new, old]  # Only full minutes count.


@pytest.mark.clause("J4", "W9")
def test_a_job_ages_by_its_own_kind_of_time(jobs: PureJobs) -> None:
    jobs.wall_ahead_ms = -86_400_000
    scheduled = jobs.enqueue(priority=4, delay_ms=1_000)
    jobs.pass_time(1_000)
    plain = jobs.enqueue(priority=4)
    assert jobs.best() == [scheduled, plain], "both are due now, and it came first"
    jobs.wall_ahead_ms -= 1
    assert jobs.best() == [plain]
    jobs.wall_ahead_ms += AGE_STEP_MS
    urgent = jobs.enqueue(priority=5)
    assert jobs.best() == [urgent, scheduled, plain]
    jobs.wall_ahead_ms += 1
    assert jobs.best() == [scheduled, urgent, plain], "it has waited for a minute by the wall clock"


@pytest.mark.clause("J11", "W9")
def test_a_scheduled_job_that_is_cancelled_and_requeued_is_due_at_once(jobs: PureJobs) -> None:
    job = jobs.enqueue(delay_ms=3_600_000)
    jobs.cancel(job)
    jobs.requeue(job)
    assert jobs.state(job) == "ready"
    jobs.wall_ahead_ms = 86_400_000
    assert jobs.best() == [job], "it stands in the queue once"


@pytest.mark.clause("J11", "W9", "W6")
def test_a_job_of_an_older_log_waits_for_its_run_at_by_the_wall_clock(jobs: PureJobs) -> None:
    """There the terms end with the fingerprint, and a job without a `run_at` has the time of its record."""
    at, in_an_hour = jobs.now, jobs.now + 3_600_000
    old = msgspec.msgpack.encode([[0, "mail", 5, in_an_hour, 3, 0, 0], [1, "mail", 5, at, 3, 0, 0]])
    jobs.fold(JobsEnqueued(at=at, jobs=msgspec.msgpack.decode(old, type=list[JobTerms])))
    jobs.wall_ahead_ms = -86_400_000
    assert jobs.best() == [1], "it was due at once, whatever the wall clock says"
    jobs.wall_ahead_ms = 3_600_000
    assert sorted(jobs.best()) == [0, 1]


@pytest.mark.clause("J4")
def test_nothing_starves_behind_a_stream_of_urgent_jobs(jobs: PureJobs) -> None:
    humble = jobs.enqueue(priority=0)
    for minute in range(11):
        jobs.enqueue(priority=9)
        ((claimed, token),) = jobs.claim()
        if claimed == humble:
            assert minute == 9
            return
        jobs.complete(claimed, token)
        jobs.pass_time(AGE_STEP_MS)
    raise AssertionError("never claimed")


@pytest.mark.clause("J4", "J11")
def test_a_scheduled_job_is_claimed_by_its_due_time_and_blocks_nothing(jobs: PureJobs) -> None:
    later = jobs.enqueue(delay_ms=1_000)
    now = jobs.enqueue()
    assert jobs.state(later) == "scheduled"
    assert order(jobs) == [now]
    jobs.pass_time(999)
    assert order(jobs) == []
    assert jobs.table.next_due("mail", lead_ms=0) == jobs.now + 1
    jobs.pass_time(1)
    third = jobs.enqueue()
    assert order(jobs) == [later, third]


@pytest.mark.clause("J4", "J8")
def test_a_due_retry_takes_part_by_its_due_time(jobs: PureJobs) -> None:
    first = jobs.enqueue()
    ((_, token),) = jobs.claim()
    jobs.fail(first, token)
    second = jobs.enqueue()
    assert order(jobs) == [second]
    jobs.pass_time(600)
    third = jobs.enqueue()
    assert order(jobs) == [first, third]


@pytest.mark.clause("J5", "J6")
def test_claimers_get_disjoint_jobs_and_queues_keep_to_themselves(jobs: PureJobs) -> None:
    mail = [jobs.enqueue("mail") for _ in range(6)]
    jobs.enqueue("video", priority=9)
    first, second = jobs.claim("mail", limit=3, owner="a"), jobs.claim("mail", limit=5, owner="b")
    assert [offset for offset, _ in first + second] == mail
    assert jobs.claim("mail", "nowhere") == []
    assert len(jobs.claim("mail", "video", limit=9)) == 1


@pytest.mark.clause("J5")
def test_a_job_cancelled_and_requeued_at_once_is_claimed_once(jobs: PureJobs) -> None:
    offset = jobs.enqueue()
    jobs.cancel(offset)
    jobs.requeue(offset)
    assert order(jobs) == [offset]


@pytest.mark.clause("J7")
def test_tokens_grow_with_each_grant_and_the_older_loses(jobs: PureJobs) -> None:
    offset = jobs.enqueue()
    jobs.jitter = 0.0
    tokens = []
    for _ in range(3):
        ((_, token),) = jobs.claim()
        tokens.append(token)
        jobs.pass_time(2_000)
    assert tokens == sorted(set(tokens))
    assert min(tokens) > 0
    ((_, token),) = jobs.claim(owner="again")
    for stale in tokens:
        with pytest.raises(StaleLease):
            jobs.complete(offset, stale)
    jobs.complete(offset, token)


@pytest.mark.clause("J7", "J1")
def test_a_lease_that_ends_is_one_attempt_even_before_anybody_has_noticed(jobs: PureJobs) -> None:
    offset = jobs.enqueue()
    ((_, token),) = jobs.claim(lease_ms=2_000)
    jobs.now += 2_000
    with pytest.raises(StaleLease):
        jobs.complete(offset, token)
    jobs.pass_time(0)
    assert jobs.table.attempts[offset] == 1
    assert jobs.table.errors[offset] == "lease_ended"
    (attempt,) = jobs.table.histories[offset]
    assert (attempt.owner, attempt.ended_at - attempt.started_at, attempt.error) == (
        "w",
        2_000,
        "lease_ended",
    )


@pytest.mark.clause("J7")
def test_a_heartbeat_extends_from_now(jobs: PureJobs) -> None:
    offset = jobs.enqueue()
    ((_, token),) = jobs.claim(lease_ms=2_000)
    for _ in range(5):
        jobs.pass_time(1_999)
        jobs.heartbeat(offset, token)
    assert jobs.state(offset) == "in_flight"
    jobs.heartbeat(offset, token, lease_ms=500)
    assert jobs.table.next_end() == jobs.now + 500
    jobs.pass_time(500)
    assert jobs.state(offset) == "scheduled"
    with pytest.raises(InvalidArgument):
        jobs.heartbeat(offset, token, lease_ms=0)


@pytest.mark.clause("J11")
def test_the_execution_timeout_holds_whatever_the_heartbeats_say(jobs: PureJobs) -> None:
    offset = jobs.enqueue(timeout_ms=5_000)
    ((_, token),) = jobs.claim(lease_ms=2_000)
    for _ in range(4):
        jobs.pass_time(1_200)
        jobs.heartbeat(offset, token, lease_ms=10_000)
    jobs.pass_time(199)
    assert jobs.state(offset) == "in_flight"
    jobs.pass_time(1)
    assert jobs.state(offset) == "scheduled"
    assert jobs.table.errors[offset] == "execution_timeout"
    with pytest.raises(StaleLease):
        jobs.heartbeat(offset, token)


@pytest.mark.clause("J8")
def test_backoff_is_full_jitter_under_a_cap_that_doubles() -> None:
    for retry in range(1, 40):
        cap = min(500 * 2 ** (retry - 1), 30_000)
        assert wait_ms(FIRST_TIMING, retry, 0.0) == 0
        assert wait_ms(FIRST_TIMING, retry, 0.5) == cap // 2
        assert cap - 1 <= wait_ms(FIRST_TIMING, retry, 0.999_999_9) <= cap


@pytest.mark.clause("J8", "J9")
@pytest.mark.parametrize("max_retries", [0, 1, 3])
def test_after_its_retries_a_job_is_dead(jobs: PureJobs, max_retries: int) -> None:
    offset = jobs.enqueue(max_retries=max_retries)
    for attempt in range(1, max_retries + 2):
        assert jobs.state(offset) == "ready"
        ((_, token),) = jobs.claim()
        jobs.fail(offset, token, f"failure {attempt}")
        jobs.pass_time(30_000)
    assert jobs.state(offset) == "dead"
    assert jobs.table.errors[offset] == f"failure {max_retries + 1}"
    assert jobs.table.attempts[offset] == len(jobs.table.histories[offset]) == max_retries + 1


@pytest.mark.clause("J9")
def test_a_requeued_job_starts_again_and_keeps_its_history(jobs: PureJobs) -> None:
    offset = jobs.enqueue(max_retries=0)
    ((_, first),) = jobs.claim()
    jobs.fail(offset, first)
    jobs.requeue(offset)
    assert (jobs.state(offset), jobs.table.attempts[offset]) == ("ready", 0)
    ((_, second),) = jobs.claim()
    assert second > first
    jobs.complete(offset, second)
    assert [attempt.error for attempt in jobs.table.histories[offset]] == ["boom", None]


@pytest.mark.clause("J11")
def test_a_key_stays_for_seven_days_after_the_end(jobs: PureJobs) -> None:
    assert KEY_TTL_MS == WEEK_MS
    offset = jobs.enqueue(fingerprint=77)
    jobs.pass_time(30 * WEEK_MS)
    assert jobs.table.keys.find(77) == [offset]
    ((_, token),) = jobs.claim()
    jobs.complete(offset, token)
    jobs.pass_time(WEEK_MS - 1)
    assert jobs.table.keys.find(77) == [offset]
    jobs.pass_time(1)
    assert jobs.table.keys.find(77) == []


@pytest.mark.clause("J11")
def test_the_seven_days_count_from_the_last_end(jobs: PureJobs) -> None:
    offset = jobs.enqueue(fingerprint=77)
    jobs.cancel(offset)
    jobs.pass_time(WEEK_MS - 1)
    jobs.requeue(offset)
    jobs.pass_time(2 * WEEK_MS)
    assert jobs.table.keys.find(77) == [offset]
    jobs.cancel(offset)
    jobs.pass_time(WEEK_MS - 1)
    assert jobs.table.keys.find(77) == [offset]
    jobs.pass_time(1)
    assert jobs.table.keys.find(77) == []


def test_what_ended_long_ago_leaves_no_notes_behind(jobs: PureJobs) -> None:
    for _ in range(10_100):
        jobs.enqueue()
    for offset, token in jobs.claim(limit=10_100):
        jobs.complete(offset, token, '"r"')
    assert len(jobs.table.histories) == len(jobs.table.results) == len(jobs.table.completed_tokens) == 10_000
    assert not jobs.table.grants
    assert jobs.table.next_end() is None
    assert len(jobs.table.ends) <= 64
