"""The last span of an event's trace: the read model has it.

A batch holds events of many traces, so the driver reports a span in each of them, all of the batch's length.
Reading the traces costs another pass over the batch; only a driver that traces does it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from driftq.telemetry.tracing import TRACEPARENT, is_sampled, is_tracing, report_spans

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TRACES_MAX = 256
"""Traces of one batch that get a span."""
_SAMPLED = "[13579bdf]$"


def report_applied(projection: str, batch: DataFrame, *, began_ns: int) -> None:
    """The batch is in the read model: end the sampled traces of its events, up to a limit."""
    if not is_tracing():
        return
    ended_ns = time.time_ns()
    trace = f.get_json_object("value", f"$.metadata.{TRACEPARENT}")
    found = batch.select(trace.alias("trace")).where(f.col("trace").rlike(_SAMPLED)).limit(TRACES_MAX)
    report_spans(
        f"project {projection}",
        [row.trace for row in found.collect() if is_sampled(row.trace)],
        began_ns=began_ns,
        ended_ns=ended_ns,
        attributes={"messaging.system": "driftq", "driftq.projection": projection},
    )
