"""Read models as Parquet files in a folder, and how Spark's tasks write them."""

from driftq.sinks.parquet.model import ParquetReadModel, ParquetSink

__all__ = ["ParquetReadModel", "ParquetSink"]
