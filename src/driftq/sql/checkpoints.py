"""Moves what SQLite's journal holds into its file, beside the transactions instead of inside one of them.

A commit is durable once it is in the journal; that its pages also reach the file is housekeeping. SQLite does
it inside whichever commit makes the journal too long, and that one then takes ten times as long as the
others. Here a thread with a connection of its own does it, in small steps, while others go on writing.

A step that runs beside a writer always leaves what was written meanwhile, so the journal would never
restart. When it has grown long, the thread takes the writer lock to move that small rest; the next commit
then begins the journal from its start.

A crash at any moment costs nothing: SQLite syncs the pages in the file before it counts them as moved, and
the journal is whole until then. If the thread falls behind or fails, the writer's own limit is still there.
"""

import logging
import sqlite3
import threading

from driftq.sql.fair_lock import FairLock

STEP_PAGES = 16_000
"""How much the journal grows from one step to the next, about."""
RESTART_PAGES = 8_000
"""How long the journal may grow before it restarts."""

_REST_PAGES = 400  # Few enough to be moved while writers wait.
_TRIES = 4
_ROWS_PER_COMMIT = 2  # A commit costs pages of its own, about as many as two rows more would.
_FIRST_PAGES_PER_ROW = 4
_PAGES_PER_ROW_MIN = 2  # What was learned from a small file holds no longer when it has grown.
_TURN_S = 1.0

_logger = logging.getLogger(__name__)


class Checkpoints:
    """The steps for one file. The thread begins with the first step that is due."""

    def __init__(
        self,
        path: str,
        writer_lock: FairLock,
        *,
        step_pages: int = STEP_PAGES,
        restart_pages: int = RESTART_PAGES,
    ) -> None:
        self._path = path
        self._writer_lock = writer_lock
        self._step_pages = step_pages
        self._restart_pages = restart_pages
        self.rows_due = step_pages // _FIRST_PAGES_PER_ROW
        """The next step comes after so many rows."""
        self.steps_done = 0
        self._rows_moved = 0
        self._rows = 0
        self._rows_counted = 0
        self._pages_seen = 0
        self._due = threading.Event()
        self._closing = False
        self._thread: threading.Thread | None = None

    def written(self, rows: int) -> None:
        """After each commit, under the writer lock: how many rows its connection has changed so far.

        SQLite counts rows for free; how many pages they cost is learned at each step.
        """
        fresh = rows - self._rows_counted
        self._rows_counted = rows
        self._rows += (
            fresh if fresh >= 0 else rows
        ) + _ROWS_PER_COMMIT  # Another connection counts from zero.
        if self._rows - self._rows_moved < self.rows_due or self._due.is_set():
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="driftq-checkpoints", daemon=True)
            self._thread.start()
        self._due.set()

    def close(self) -> None:
        """Wait for a step that is under way. The last connection that closes moves the rest."""
        self._closing = True
        self._due.set()
        if self._thread is not None:
            self._thread.join()

    def _work(self) -> None:
        connection: sqlite3.Connection | None = None
        while self._due.wait():
            self._due.clear()  # First, so that no later signal is lost.
            if self._closing:
                break
            fresh, self._rows_moved = self._rows - self._rows_moved, self._rows
            try:
                connection = connection or self._connect()
                self.step(connection, rows=fresh)
            except sqlite3.Error as error:
                _logger.warning("a checkpoint of %s failed: %s", self._path, error)
            self.steps_done += 1
        if connection is not None:
            connection.close()

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, isolation_level=None)
        connection.execute("PRAGMA synchronous = FULL")
        return connection

    def step(self, connection: sqlite3.Connection, *, rows: int = 0) -> None:
        """One step, after so many rows since the last one, and the end of a journal that is long."""
        pages, _ = _move(connection)
        self._learn(rows, pages)
        if pages >= self._restart_pages and self._restart_journal(connection, pages):
            self._pages_seen = 0
            self._rows_moved = self._rows  # Those written meanwhile were in the old journal.

    def _restart_journal(self, connection: sqlite3.Connection, pages: int) -> bool:
        """Leave nothing in the journal, so that the next commit begins it from its start."""
        for _ in range(_TRIES):
            before, (pages, _) = pages, _move(connection)
            if pages - before <= _REST_PAGES:  # Came during one move, so about as many come during the next.
                break
        if not self._writer_lock.take(timeout_s=_TURN_S):
            return False
        try:
            pages, moved = _move(connection)
            return moved == pages
        finally:
            self._writer_lock.give()

    def _learn(self, rows: int, pages: int) -> None:
        """What so many rows cost; nothing is learned when the journal restarted in between."""
        grown = pages - self._pages_seen
        self._pages_seen = pages
        if rows > 0 and grown > 0:
            learned = self._step_pages * rows // grown
            self.rows_due = max(1, min(learned, self._step_pages // _PAGES_PER_ROW_MIN))


def _move(connection: sqlite3.Connection) -> tuple[int, int]:
    """Pages in the journal as this began, and how many of them are in the file now. Never waits."""
    _, pages, moved = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    return pages, moved
