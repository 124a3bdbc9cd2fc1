"""Where Spark finds `format("driftq")`: see `driftq.pipeline.spark.formats`."""

from driftq.pipeline.spark.formats import TopicFormat as DefaultSource

__all__ = ["DefaultSource"]
