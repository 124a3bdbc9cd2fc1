"""Where Spark finds `format("driftq-events")`: see `driftq.pipeline.spark.formats`."""

from driftq.pipeline.spark.formats import EventFormat as DefaultSource

__all__ = ["DefaultSource"]
