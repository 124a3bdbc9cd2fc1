"""The states of a job, and every way from each of them: what is legal happens, the rest changes nothing."""

from collections.abc import Callable

import pytest

from driftq.core.jobs.transitions import Settlement
from driftq.errors import DriftQError, JobNotFound, StaleLease, WrongJobState
from tests.unit.core.job_machine import PureJobs

STALE = 999


class Placed:
    """One job in a state, with the token that its worker has or had."""

    def __init__(self, state: str) -> None:
        self.jobs = jobs = PureJobs()
        self.offset = jobs.enqueue(delay_ms=5_000 if state == "scheduled" else 0, timeout_ms=60_000)
        self.token = STALE
        if state in ("in_flight", "succeeded", "dead"):
            ((_, self.token),) = jobs.claim()
        if state == "succeeded":
            jobs.complete(self.offset, self.token, '"done"')
        if state == "dead":
            jobs.fail(self.offset, self.token, retryable=False)
        assert self.state() == state

    def state(self) -> str | None:
        return self.jobs.state(self.offset)


def _claim(job: Placed) -> None:
    if not job.jobs.claim():
        raise LookupError


ACTIONS: dict[str, Callable[[Placed], None]] = {
    "claim": _claim,
    "heartbeat": lambda job: job.jobs.heartbeat(job.offset, job.token),
    "complete": lambda job: job.jobs.complete(job.offset, job.token),
    "fail": lambda job: job.jobs.fail(job.offset, job.token),
    "fail for good": lambda job: job.jobs.fail(job.offset, job.token, retryable=False),
    "cancel": lambda job: job.jobs.cancel(job.offset),
    "requeue": lambda job: job.jobs.requeue(job.offset),
    "lease ends": lambda job: job.jobs.pass_time(2_000),
    "due time comes": lambda job: job.jobs.pass_time(5_000),
}
REFUSED = LookupError | DriftQError

MATRIX: dict[tuple[str, str], str] = {
    ("ready", "claim"): "in_flight",
    ("ready", "cancel"): "dead",
    ("scheduled", "cancel"): "dead",
    ("scheduled", "due time comes"): "ready",
    ("in_flight", "heartbeat"): "in_flight",
    ("in_flight", "complete"): "succeeded",
    ("in_flight", "fail"): "scheduled",
    ("in_flight", "fail for good"): "dead",
    ("in_flight", "cancel"): "dead",
    ("in_flight", "lease ends"): "scheduled",
    ("in_flight", "due time comes"): "scheduled",
    ("succeeded", "complete"): "succeeded",
    ("dead", "requeue"): "ready",
}
"""Every legal transition; time alone, where it changes nothing, and all else is refused."""

TIME = ("lease ends", "due time comes")


@pytest.mark.clause("J10", "J7")
@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("state", ["ready", "scheduled", "in_flight", "succeeded", "dead"])
def test_the_matrix(state: str, action: str) -> None:
    job = Placed(state)
    records = len(job.jobs.log)
    wanted = MATRIX.get((state, action))
    if wanted is not None or action in TIME:
        ACTIONS[action](job)
        assert job.state() == (wanted or state)
        return
    with pytest.raises((LookupError, DriftQError)):
        ACTIONS[action](job)
    assert job.state() == state
    assert len(job.jobs.log) == records


@pytest.mark.clause("J7", "J10")
@pytest.mark.parametrize("action", ["heartbeat", "complete", "fail"])
@pytest.mark.parametrize("state", ["ready", "scheduled", "in_flight", "succeeded", "dead"])
def test_any_other_token_is_stale(state: str, action: str) -> None:
    job = Placed(state)
    records = len(job.jobs.log)
    for token in (0, job.token + 1, STALE):
        job.token = token
        with pytest.raises(StaleLease):
            ACTIONS[action](job)
    assert (job.state(), len(job.jobs.log)) == (state, records)


@pytest.mark.clause("J10")
@pytest.mark.parametrize("action", ["heartbeat", "complete", "fail", "cancel", "requeue"])
def test_a_job_that_never_was(action: str) -> None:
    job = Placed("ready")
    job.offset = 7
    with pytest.raises(JobNotFound):
        ACTIONS[action](job)


@pytest.mark.clause("J10", "J9")
def test_a_cancelled_job_says_so_and_its_worker_cannot_finish_it() -> None:
    job = Placed("in_flight")
    job.jobs.cancel(job.offset)
    assert job.jobs.table.errors[job.offset] == "cancelled"
    with pytest.raises(StaleLease):
        job.jobs.complete(job.offset, job.token)
    with pytest.raises(WrongJobState) as refused:
        job.jobs.cancel(job.offset)
    assert (refused.value.state, refused.value.wanted) == ("dead", "cancel")


@pytest.mark.clause("J7")
def test_a_job_settled_twice_in_one_request_is_settled_once() -> None:
    job = Placed("in_flight")
    one = Settlement(job.offset, job.token)
    other = Settlement(job.offset, job.token, error="too late")
    first, second = job.jobs.settle(one, other)
    assert first is None
    assert isinstance(second, StaleLease)
    assert job.state() == "succeeded"
