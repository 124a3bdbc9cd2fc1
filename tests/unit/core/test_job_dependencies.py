"""Jobs that wait for other jobs, in the pure machine."""

from __future__ import annotations

import pytest

from driftq.core.jobs.unblocking import check_parents
from driftq.errors import JobNotFound, WrongJobState
from tests.unit.core.job_machine import PureJobs


@pytest.fixture
def jobs() -> PureJobs:
    return PureJobs()


@pytest.mark.clause("J19", "J10")
def test_a_job_is_blocked_until_all_it_waits_for_have_succeeded(jobs: PureJobs) -> None:
    first, second = jobs.enqueue(), jobs.enqueue()
    child = jobs.enqueue(after=[first, second])
    assert jobs.state(child) == "blocked"
    held = jobs.claim(limit=9)
    assert [offset for offset, _ in held] == [first, second]
    jobs.complete(*held[0])
    assert jobs.state(child) == "blocked"
    jobs.restart()
    jobs.complete(*held[1])
    assert jobs.state(child) == "ready"
    assert [offset for offset, _ in jobs.claim(limit=9)] == [child]


@pytest.mark.clause("J19")
def test_a_parent_that_has_succeeded_counts_as_done(jobs: PureJobs) -> None:
    parent = jobs.enqueue()
    jobs.complete(*jobs.claim()[0])
    child = jobs.enqueue(after=[parent])
    assert jobs.state(child) == "ready"


@pytest.mark.clause("J19")
@pytest.mark.parametrize("end", ["fail", "cancel", "lease"])
def test_one_dead_parent_makes_it_dead_and_its_children_too(jobs: PureJobs, end: str) -> None:
    lasting, dying = jobs.enqueue("video"), jobs.enqueue(max_retries=0)
    child = jobs.enqueue(after=[lasting, dying])
    grandchild = jobs.enqueue(after=[child])
    (held,) = jobs.claim(lease_ms=1_000)
    if end == "fail":
        jobs.fail(*held)
    elif end == "cancel":
        jobs.cancel(dying)
    else:
        jobs.pass_time(1_000)
    assert jobs.state(child) == jobs.state(grandchild) == "dead"
    assert jobs.table.errors[child] == f"job-{dying} is dead"
    assert jobs.table.errors[grandchild] == f"job-{child} is dead"
    jobs.requeue(dying)
    jobs.complete(*jobs.claim()[0])
    jobs.restart()
    assert jobs.state(child) == "dead"


@pytest.mark.clause("J19")
def test_a_dead_job_that_waited_can_be_requeued_by_itself(jobs: PureJobs) -> None:
    parent = jobs.enqueue()
    child = jobs.enqueue(after=[parent])
    jobs.cancel(parent)
    jobs.requeue(child)
    assert jobs.state(child) == "ready"


@pytest.mark.clause("J19")
def test_after_a_dead_job_it_is_dead_from_the_start(jobs: PureJobs) -> None:
    parent = jobs.enqueue()
    jobs.cancel(parent)
    assert check_parents(jobs.table, [parent]) == "dead"
    assert jobs.state(jobs.enqueue(after=[parent])) == "dead"


@pytest.mark.clause("J19", "J10")
def test_a_blocked_job_can_be_cancelled_and_not_requeued(jobs: PureJobs) -> None:
    parent = jobs.enqueue()
    child = jobs.enqueue(after=[parent])
    with pytest.raises(WrongJobState):
        jobs.requeue(child)
    jobs.cancel(child)
    assert (jobs.state(child), jobs.table.errors[child]) == ("dead", "cancelled")
    jobs.complete(*jobs.claim()[0])
    assert jobs.state(child) == "dead"
    assert not jobs.table.dependencies.unmet
    assert not jobs.table.dependencies.children


@pytest.mark.clause("J19")
def test_its_run_time_holds_beside_the_jobs_it_waits_for(jobs: PureJobs) -> None:
    parent = jobs.enqueue()
    child = jobs.enqueue(after=[parent], delay_ms=5_000)
    jobs.complete(*jobs.claim()[0])
    assert jobs.state(child) == "scheduled"
    jobs.pass_time(5_000)
    assert [offset for offset, _ in jobs.claim()] == [child]


@pytest.mark.clause("J19")
def test_it_waits_in_the_lane_of_its_key_when_it_is_ready(jobs: PureJobs) -> None:
    parent = jobs.enqueue(key="a")
    child = jobs.enqueue(after=[parent], key="a")
    jobs.complete(*jobs.claim()[0])
    assert [offset for offset, _ in jobs.claim()] == [child]


@pytest.mark.clause("J19")
def test_an_unknown_parent_is_refused(jobs: PureJobs) -> None:
    with pytest.raises(JobNotFound):
        check_parents(jobs.table, [7])


@pytest.mark.clause("J19")
def test_a_crash_between_the_end_and_what_follows_leaves_no_job_blocked(jobs: PureJobs) -> None:
    """The two are records of their own: a restart that has only the first decides the second."""
    parent, other = jobs.enqueue(), jobs.enqueue()
    waiting, doomed = jobs.enqueue(after=[parent]), jobs.enqueue(after=[other])
    jobs.complete(*jobs.claim()[0])
    jobs.cancel(other)
    jobs.log = [record for record in jobs.log if type(record).__name__ != "JobsUnblocked"]
    jobs.restart()
    assert jobs.state(waiting) == jobs.state(doomed) == "blocked"
    jobs.unblock()
    assert (jobs.state(waiting), jobs.state(doomed)) == ("ready", "dead")
