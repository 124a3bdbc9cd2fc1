"""The jobs of the pipeline: a continuous query, or a task that ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

ReportProgress = Callable[[str], None]
"""Takes a line of progress."""
OnOutage = Callable[[str | None], None]
"""Takes the reason why a target is away, and None when it is back."""


class StreamJob(Protocol):
    """Publisher, worker, projection: one streaming query that may be killed and restarted at any time."""

    @property
    def name(self) -> str:
        """Also the name of the query and of its checkpoint."""

    def start(self, spark: SparkSession, *, once: bool) -> StreamingQuery:
        """Start. With `once` the query handles the current messages and ends."""


@runtime_checkable
class ClosesJob(Protocol):
    """A job with something to finish when its query has ended."""

    def close(self) -> None: ...


@runtime_checkable
class WaitsForTargets(Protocol):
    """A job that waits for unavailable targets inside a batch, and says so."""

    on_outage: OnOutage


class BatchJob(Protocol):
    """Rebuild, compaction: work with an end."""

    @property
    def name(self) -> str: ...

    def run(self, spark: SparkSession, report: ReportProgress) -> None:
        """Do all of it, reporting progress."""
