"""What differs between pyspark 4.0 and 4.3, in one place.

- Before 4.2 Spark tells a stream reader neither where a batch starts nor how much it may hold. `fitted` wraps
  our readers in one that remembers the first and applies the second. A run with `Trigger.AvailableNow` has
  one batch there; `PinnedEnd` in `source/pinned.py` says whether another run is needed.
- Before 4.1 there is no filter pushdown, no Arrow writer for streams and no `repartitionById`.
- From 4.1 on the classes that write checkpoints are in a package of their own.
- In 4.0 Spark refuses to register a format that it has found by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from pyspark.sql import datasource
from pyspark.sql.datasource import DataSourceStreamReader, DataSourceStreamWriter

from driftq.pipeline.source.lag import LATEST, without_notes
from driftq.pipeline.spark.unpacking import SaysWhatIsMissing

if TYPE_CHECKING:
    import pyarrow as arrow
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.datasource import DataSource
    from pyspark.sql.datasource import DataSourceStreamArrowWriter as StreamArrowWriter
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )

    ENDS_AFTER_ONE_BATCH: bool
else:
    try:
        from pyspark.sql.streaming.datasource import (
            ReadAllAvailable,
            ReadLimit,
            ReadMaxRows,
            SupportsTriggerAvailableNow,
        )

        ENDS_AFTER_ONE_BATCH = False
    except ModuleNotFoundError:
        ENDS_AFTER_ONE_BATCH = True

        class ReadLimit: ...

        @dataclass
        class ReadAllAvailable(ReadLimit): ...

        @dataclass
        class ReadMaxRows(ReadLimit):
            max_rows: int

        class SupportsTriggerAvailableNow: ...

    StreamArrowWriter = getattr(datasource, "DataSourceStreamArrowWriter", DataSourceStreamWriter)

__all__ = [
    "ENDS_AFTER_ONE_BATCH",
    "HAS_PUSHDOWN",
    "LimitedReader",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxRows",
    "RefusedReader",
    "SelfLimitingReader",
    "StreamArrowWriter",
    "SupportsTriggerAvailableNow",
    "arrow_batches",
    "checkpoint_files_class",
    "fitted",
    "register_format",
    "repartition_by_id",
]

_WRITES_ARROW = StreamArrowWriter is not DataSourceStreamWriter
_HASHED = "__hashed"
_TRIED_PER_TASK = 100
"""Numbers that are tried to find one for each task."""
HAS_PUSHDOWN = hasattr(datasource.DataSourceReader, "pushFilters")
"""Spark hands filters to a reader, if the session wants it: from 4.1 on."""

_CHECKPOINT_FILES = "FileSystemBasedCheckpointFileManager"
_ALREADY_EXISTS = "DATA_SOURCE_ALREADY_EXISTS"
_ROWS_AT_ONCE = 10_000


class LimitedReader(Protocol):
    """Our stream readers: as Spark 4.2 wants them, with what the wrapper for older ones asks besides."""

    def initialOffset(self) -> dict[str, Any]: ...
    def getDefaultReadLimit(self) -> ReadLimit: ...
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]: ...
    def reportLatestOffset(self) -> dict[str, Any]: ...
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Any: ...
    def read(self, partition: Any) -> Iterator[arrow.RecordBatch]: ...
    def commit(self, end: dict[str, Any]) -> None: ...
    def stop(self) -> None: ...

    def newest_offsets(self) -> dict[str, Any]:
        """Where the source ended when `latestOffset` was called last."""


def checkpoint_files_class() -> str:
    """The Java class that writes a checkpoint by plain calls of its file system."""
    package = "org.apache.spark.sql.execution.streaming"
    return (
        f"{package}.checkpointing.{_CHECKPOINT_FILES}" if HAS_PUSHDOWN else f"{package}.{_CHECKPOINT_FILES}"
    )


def fitted(reader: LimitedReader) -> DataSourceStreamReader:
    """The reader as the installed Spark takes it."""
    if ENDS_AFTER_ONE_BATCH:
        return SelfLimitingReader(reader)
    assert isinstance(reader, DataSourceStreamReader)
    return reader


class SelfLimitingReader(SaysWhatIsMissing, DataSourceStreamReader):
    """Limits each batch itself, for a Spark that asks only for the newest offset.

    Spark asks for the newest offset of a new query before it asks for the first one, and hands the last
    planned offset of a resumed query to `partitions` before anything else. Every offset that it asks for
    becomes a batch. Such a Spark does not ask for the lag either: the offset itself carries it as a note.
    """

    def __init__(self, reader: LimitedReader) -> None:
        self._reader = reader
        self._first: dict[str, Any] | None = None
        self._at: dict[str, Any] | None = None
        """The end of the batch that was planned last."""

    def initialOffset(self) -> dict[str, Any]:
        if self._first is None:
            self._first = self._reader.initialOffset()
        return self._first

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]
        start = self.initialOffset() if self._at is None else self._at
        end = self._reader.latestOffset(start, self._reader.getDefaultReadLimit())
        if without_notes(end) == without_notes(start):
            return start  # To the letter: another note would look like new messages.
        self._at = {**self._reader.reportLatestOffset(), LATEST: self._reader.newest_offsets()}
        return self._at

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Any:
        if self._at is None:
            self._at = end
        return self._reader.partitions(start, end)

    def read(self, partition: Any) -> Iterator[arrow.RecordBatch]:
        return self._reader.read(partition)

    def commit(self, end: dict[str, Any]) -> None:
        self._reader.commit(end)

    def stop(self) -> None:
        self._reader.stop()


class RefusedReader(DataSourceStreamReader):
    """Raises an error when it is used: pyspark hides one that is raised while a stream's reader is made."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def initialOffset(self) -> dict[str, Any]:
        raise self._error

    def latestOffset(self, *_: Any) -> dict[str, Any]:
        raise self._error

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Any:
        raise self._error

    def read(self, partition: Any) -> Iterator[arrow.RecordBatch]:
        raise self._error


def arrow_batches(given: Iterator[Any], columns: Sequence[str]) -> Iterator[arrow.RecordBatch]:
    """What Spark gives a `StreamArrowWriter`: batches, or before 4.1 rows, of which these columns count."""
    return given if _WRITES_ARROW else _batches_of(given, columns)


def _batches_of(rows: Iterator[Any], columns: Sequence[str]) -> Iterator[arrow.RecordBatch]:
    import pyarrow as arrow

    while together := list(islice(rows, _ROWS_AT_ONCE)):
        names = [name for name in columns if name in together[0]]
        arrays = [arrow.array([row[name] for row in together], arrow.string()) for name in names]
        yield arrow.RecordBatch.from_arrays(arrays, names=names)


def repartition_by_id(rows: DataFrame, tasks: int, column: str) -> DataFrame:
    """The rows of each number in `column`, from 0, in the task of that number; every task runs."""
    if hasattr(rows, "repartitionById"):
        return rows.repartitionById(tasks, column)
    from pyspark.sql import functions as sql

    keys = sql.array(*map(sql.lit, _hashed_to(rows.sparkSession, tasks)))
    return (
        rows.withColumn(_HASHED, sql.element_at(keys, sql.col(column) + 1))
        .repartition(tasks, _HASHED)
        .drop(_HASHED)
    )


def _hashed_to(spark: SparkSession, tasks: int) -> list[int]:
    """For each task a number whose hash leads to it."""
    from pyspark.sql import functions as sql

    number = sql.col("id").cast("int")
    place = sql.pmod(sql.hash(number), sql.lit(tasks))
    tried = spark.range(tasks * _TRIED_PER_TASK).groupBy(place.alias("place"))
    found = {row.place: row.number for row in tried.agg(sql.min(number).alias("number")).collect()}
    return [found[task] for task in range(tasks)]


def register_format(spark: SparkSession, source: type[DataSource]) -> None:
    """Register a format, also beside the one of the same name that Spark has found by itself."""
    from pyspark.errors import PySparkException

    try:
        spark.dataSource.register(source)
    except PySparkException as refused:
        if refused.getCondition() != _ALREADY_EXISTS:
            raise
