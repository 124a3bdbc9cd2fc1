"""The state of a job, and one run of it: while it is held, and when it is over."""

from enum import IntEnum

import msgspec


class JobState(IntEnum):
    """What is logged of a job; the wire has `ready` and `scheduled` for WAITING."""

    WAITING = 1
    IN_FLIGHT = 2
    SUCCEEDED = 3
    DEAD = 4


class JobGrant(msgspec.Struct, gc=False):
    """A job in somebody's hands."""

    owner: str
    token: int
    lease_ms: int
    lease_until: int
    times_out_at: int
    """When its execution is over whatever the heartbeats say; 0 is never."""
    claimed_at: int

    def ends_at(self) -> int:
        return min(self.lease_until, self.times_out_at) if self.times_out_at else self.lease_until


class EndedRun(msgspec.Struct, gc=False):
    """One run of a job."""

    owner: str
    started_at: int
    ended_at: int
    error: str | None
    """None when it succeeded."""
