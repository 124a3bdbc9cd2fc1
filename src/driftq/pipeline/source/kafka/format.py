"""The format of Kafka's newest messages. The pipeline's own: it is registered when a query needs it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceStreamReader
from pyspark.sql.types import StructType

from driftq.pipeline.source.kafka.options import KafkaSourceOptions, as_options, read_kafka_options
from driftq.pipeline.spark.compat import fitted, register_format
from driftq.pipeline.spark.unpacking import SaysWhatIsMissing
from driftq.pipeline.transport.port import COLUMN_TYPES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class NewestKafkaFormat(SaysWhatIsMissing, DataSource):
    """Messages with the columns of every transport."""

    @classmethod
    def name(cls) -> str:
        return "driftq-kafka-newest"

    def schema(self) -> str:
        return COLUMN_TYPES

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from driftq.pipeline.source.kafka.stream import KafkaStreamReader

        return fitted(KafkaStreamReader(read_kafka_options(self.options)))


def newest_stream(spark: SparkSession, options: KafkaSourceOptions) -> DataFrame:
    """The stream that these options describe."""
    register_format(spark, NewestKafkaFormat)
    return spark.readStream.format(NewestKafkaFormat.name()).options(**as_options(options)).load()
