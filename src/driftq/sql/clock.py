"""Which clock gives the time in a database.

Leases are taken on one machine and judged on another, so the time that decides must be the same for all.
On PostgreSQL it is the server's own clock, read in SQL at the moment of the decision. An SQLite file is
shared by the processes of one machine, so it is that machine's wall clock; a monotonic clock would start
from another zero in each process. A wall clock may jump: a lease may then end early or late, and the
fencing token keeps the work safe all the same.

A clock handed to `open_database` replaces both. Tests do that, and nothing else should on PostgreSQL.
"""

import time
from typing import Protocol


class DatabaseClock(Protocol):
    """Milliseconds since 1970."""

    def now(self) -> int: ...


class WallClock:
    """The machine's clock as it is."""

    def now(self) -> int:
        return time.time_ns() // 1_000_000
