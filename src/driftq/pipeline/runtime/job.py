"""What a job of the pipeline is: a query that goes on, or a piece of work that ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

ReportProgress = Callable[[str], None]
"""Takes a line of progress."""


class StreamJob(Protocol):
    """Publisher, worker, projection: one streaming query that may be killed and started again at any time."""

    @property
    def name(self) -> str:
        """Also the name of the query and of its checkpoint."""

    def start(self, spark: SparkSession, *, once: bool) -> StreamingQuery:
        """Begin. With `once` the query handles what is there now and ends by itself."""


class BatchJob(Protocol):
    """Rebuild, compaction: work with an end."""

    @property
    def name(self) -> str: ...

    def run(self, spark: SparkSession, report: ReportProgress) -> None:
        """Do all of it, telling how far it is."""
