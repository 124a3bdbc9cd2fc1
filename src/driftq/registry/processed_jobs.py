"""Which jobs were completed, by job id or business key, kept for a while: a retried one finds its trace.

The mark can be made in the caller's transaction, with the job's own changes. It lives in the database and
outlasts the broker and its memory.
"""

from dataclasses import dataclass

from driftq.registry.sql_registry import MIGRATIONS
from driftq.sql import Database, Queries, Transaction, key_text, perform, prepare
from driftq.sql.migrations import require

WEEK_MS = 7 * 24 * 3600 * 1000
STEP_ROWS = 1_000


@dataclass(frozen=True, slots=True)
class ProcessedJob:
    scope: str
    job_key: str
    completed_at: int
    expires_at: int
    result_hash: str


def forget_expired_jobs(database: Database, *, limit: int = STEP_ROWS) -> int:
    """Delete rows of every scope that are over; returns how many.

    Changes no table's form: raises SchemaOutdated where the registry's tables are missing, or SchemaTooNew.
    """
    require(database, [MIGRATIONS])
    queries = Queries.load("driftq.registry", database.renderer)
    return perform(database, lambda own: own.run(queries["forget_jobs"], most=limit))


class ProcessedJobs:
    """One scope of keys, such as a queue or a kind of business key."""

    def __init__(self, database: Database, *, scope: str = "", ttl_ms: int = WEEK_MS) -> None:
        prepare(database, [MIGRATIONS])
        self._database = database
        self._queries = Queries.load("driftq.registry", database.renderer)
        self._scope = key_text("scope", scope)
        self._ttl_ms = ttl_ms

    def record(self, job_key: str, *, result_hash: str = "", transaction: Transaction | None = None) -> bool:
        """True if this is the first completion; False, and nothing changes, if one is recorded already."""
        if transaction is not None:
            return self._record(transaction, job_key, result_hash)
        return perform(self._database, lambda own: self._record(own, job_key, result_hash))

    def find(self, job_key: str, *, transaction: Transaction | None = None) -> ProcessedJob | None:
        """The recorded completion, until its time is over."""
        if transaction is not None:
            return self._find(transaction, job_key)
        with self._database.snapshot() as own:
            return self._find(own, job_key)

    def forget_expired(self, *, limit: int = STEP_ROWS) -> int:
        """Delete what is over; returns how many."""
        return perform(self._database, lambda own: own.run(self._queries["forget_jobs"], most=limit))

    def _record(self, transaction: Transaction, job_key: str, result_hash: str) -> bool:
        row = transaction.row(
            self._queries["record_job"],
            scope=self._scope,
            job_key=key_text("job_key", job_key),
            ttl_ms=self._ttl_ms,
            result_hash=key_text("result_hash", result_hash),
        )
        return row is not None

    def _find(self, transaction: Transaction, job_key: str) -> ProcessedJob | None:
        row = transaction.row(self._queries["find_job"], scope=self._scope, job_key=job_key)
        return ProcessedJob(*row) if row else None
