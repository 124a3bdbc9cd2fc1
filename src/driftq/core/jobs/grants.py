"""A job under lease, and a run that has ended."""

import msgspec


class JobGrant(msgspec.Struct, gc=False):
    """A job under lease."""

    owner: str
    token: int
    lease_ms: int
    lease_until: int
    times_out_at: int
    """When its execution times out despite heartbeats; 0 is never."""
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
