"""How jobs are retried that say nothing about it themselves."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """The server's retry policy. Profile v1-dev has 4 attempts from 500 ms up to 30 s."""

    max_attempts: int = 20
    base_ms: int = 2_000
    cap_ms: int = 3_600_000
    full_jitter: bool = True
