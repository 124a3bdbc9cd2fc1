"""How long a source waits at the server for new data before it tells Spark that there is none.

Spark asks a source that has nothing again after a pause, and each question is a round trip through Python. A
source that waits at the server learns of new data at once, and asks seldom while there is none.

The first few questions of a query do not wait: in between, Spark reports that the query waits for data, and
whoever starts several queries recognizes by that that one has arrived.
"""

from __future__ import annotations

MAX_WAIT = "1s"
"""Of our own jobs: a query that is stopped ends after its wait."""
MISSING_MS = 500
"""How long to wait for a topic that does not exist."""
AT_ONCE = 10


class Waits:
    """The waits of one query."""

    def __init__(self, wait_ms: int) -> None:
        self._wait_ms = wait_ms
        self._asked = 0

    def next_ms(self) -> int:
        """How long to wait now; 0 not at all. Called each time that there is nothing new."""
        self._asked += 1
        return self._wait_ms if self._asked > AT_ONCE else 0
