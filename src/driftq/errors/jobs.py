"""Jobs with their leases, and schedules."""

from __future__ import annotations

from driftq.errors.kinds import DriftQError, FailedPrecondition, NotFound


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


class ScheduleNotFound(NotFound):
    def __init__(self, name: str) -> None:
        super().__init__(f"there is no schedule {name!r}")
        self.name = name


class ScheduleExists(DriftQError):
    """A schedule of this name exists with other content."""

    code = "ALREADY_EXISTS"
    status = 409

    def __init__(self, name: str) -> None:
        super().__init__(f"the schedule {name!r} exists with other content; PUT replaces it")
        self.name = name


class OutboxMissing(Exception):
    """The database has no outbox."""

    def __init__(self, address: str) -> None:
        super().__init__(f"{address} has no outbox: run driftq outbox init")
        self.address = address


class OutboxRelayReplaced(Exception):
    """Another relay has taken over: this one may change nothing more."""

    def __init__(self, *, token: int) -> None:
        super().__init__(f"another relay has taken over from token {token}")
        self.token = token
