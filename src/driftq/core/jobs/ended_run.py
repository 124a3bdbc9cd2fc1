"""A run of a job that has ended."""

import msgspec


class EndedRun(msgspec.Struct, gc=False):
    """One run of a job."""

    owner: str
    started_at: int
    ended_at: int
    error: str | None
    """None when it succeeded."""
