"""Jobs and their leases."""

from __future__ import annotations

from driftq.errors.kinds import FailedPrecondition, NotFound


class JobNotFound(NotFound):
    def __init__(self, job: str) -> None:
        super().__init__(f"there is no job {job!r}")
        self.job = job


class StaleLease(FailedPrecondition):
    """The job's lease is no longer held under this token."""

    reason = "stale_lease"

    def __init__(self, job: str, *, given: int) -> None:
        super().__init__(f"{job} is not held under token {given}")
        self.job = job
        self.given = given


class WrongJobState(FailedPrecondition):
    """The job's state does not allow this operation."""

    reason = "wrong_state"

    def __init__(self, job: str, *, state: str, wanted: str) -> None:
        super().__init__(f"cannot {wanted} {job}: it is {state}")
        self.job = job
        self.state = state
        self.wanted = wanted
