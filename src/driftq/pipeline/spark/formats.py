"""DriftQ's data sources for Spark: `format("driftq")` and `format("driftq-events")`.

Spark finds both by itself: it imports every installed package whose name begins with `pyspark_`, and asks the
class `DefaultSource` there for the name of its format. Ours are in `pyspark_driftq` and
`pyspark_driftq_events`. All options are checked as soon as Spark asks for the columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from driftq.errors import InvalidArgument
from driftq.pipeline.spark.compat import HAS_PUSHDOWN, RefusedReader, fitted, register_format
from driftq.pipeline.spark.unpacking import SaysWhatIsMissing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class TopicFormat(SaysWhatIsMissing, DataSource):
    """Topics: columns like those of Spark's Kafka source, and those of envelope and event."""

    @classmethod
    def name(cls) -> str:
        return "driftq"

    def schema(self) -> StructType:
        from driftq.pipeline.source.options import includes_headers, topic_option_names
        from driftq.pipeline.source.reading import spark_schema

        return spark_schema(headers=includes_headers(topic_option_names(self.options)))

    def reader(self, schema: StructType) -> DataSourceReader:
        from driftq.pipeline.source.options import read_topic_options
        from driftq.pipeline.source.topic_readers import NarrowedTopicReader, TopicReader

        options = read_topic_options(self.options, streaming=False)
        return (
            NarrowedTopicReader(options) if pushes_down(wanted=options.pushes_down) else TopicReader(options)
        )

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from driftq.pipeline.source.options import read_topic_options
        from driftq.pipeline.source.topic_readers import TopicStreamReader

        try:
            return fitted(TopicStreamReader(read_topic_options(self.options, streaming=True)))
        except InvalidArgument as refused:
            return RefusedReader(refused)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from driftq.pipeline.sink.options import read_sink_options
        from driftq.pipeline.sink.writers import BatchSink, StagedBatchSink

        options = read_sink_options(self.options, schema, overwrite=overwrite)
        if options.writer is not None:
            return StagedBatchSink(options, options.writer)
        return BatchSink(options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from driftq.pipeline.sink.options import read_sink_options
        from driftq.pipeline.sink.writers import StreamSink

        return StreamSink(read_sink_options(self.options, schema, overwrite=overwrite))


class EventFormat(SaysWhatIsMissing, DataSource):
    """The event log, in the order of its positions."""

    @classmethod
    def name(cls) -> str:
        return "driftq-events"

    def schema(self) -> StructType:
        from driftq.pipeline.source.event_options import event_option_names
        from driftq.pipeline.source.events import spark_schema

        event_option_names(self.options)
        return spark_schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        from driftq.pipeline.source.event_options import read_event_options
        from driftq.pipeline.source.events import EventReader, NarrowedEventReader

        options = read_event_options(self.options, streaming=False)
        return (
            NarrowedEventReader(options) if pushes_down(wanted=options.pushes_down) else EventReader(options)
        )

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from driftq.pipeline.source.event_options import read_event_options
        from driftq.pipeline.source.events import EventStreamReader

        try:
            return fitted(EventStreamReader(read_event_options(self.options, streaming=True)))
        except InvalidArgument as refused:
            return RefusedReader(refused)


def pushes_down(*, wanted: bool) -> bool:
    """Whether filters narrow what is read; raises InvalidArgument where Spark hands none to a reader."""
    if wanted and not HAS_PUSHDOWN:
        raise InvalidArgument("pushDownPredicate", "needs pyspark 4.1 or newer")
    return wanted


def register(spark: SparkSession) -> None:
    """Register the formats with a session, at any time; a session that finds them by itself needs no call.

    Raises SparkUnusable if its Python workers do not have DriftQ.
    """
    from driftq.pipeline.spark.equipped import require_equipped_workers

    require_equipped_workers(spark)
    register_format(spark, TopicFormat)
    register_format(spark, EventFormat)
