"""DriftQ's data sources for Spark: `format("driftq")` and `format("driftq-events")`."""

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

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class TopicFormat(DataSource):
    """Topics: columns like those of Spark's Kafka source, and those of envelope and event."""

    @classmethod
    def name(cls) -> str:
        return "driftq"

    def schema(self) -> StructType:
        from driftq.pipeline.source.reading import spark_schema

        return spark_schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        from driftq.pipeline.source.options import read_topic_options
        from driftq.pipeline.source.topic_readers import TopicReader

        return TopicReader(read_topic_options(self.options, streaming=False))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from driftq.pipeline.source.options import read_topic_options
        from driftq.pipeline.source.topic_readers import TopicStreamReader

        return TopicStreamReader(read_topic_options(self.options, streaming=True))

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


class EventFormat(DataSource):
    """The event log, in the order of its positions."""

    @classmethod
    def name(cls) -> str:
        return "driftq-events"

    def schema(self) -> StructType:
        from driftq.pipeline.source.events import spark_schema

        return spark_schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        from driftq.pipeline.source.event_options import read_event_options
        from driftq.pipeline.source.events import EventReader

        return EventReader(read_event_options(self.options, streaming=False))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from driftq.pipeline.source.event_options import read_event_options
        from driftq.pipeline.source.events import EventStreamReader

        return EventStreamReader(read_event_options(self.options, streaming=True))


def register(spark: SparkSession) -> None:
    """Register the formats with a session. Raises SparkUnusable if its Python workers do not have DriftQ."""
    from driftq.pipeline.spark.equipped import require_equipped_workers

    require_equipped_workers(spark)
    spark.dataSource.register(TopicFormat)
    spark.dataSource.register(EventFormat)
