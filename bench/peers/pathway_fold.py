"""The newest state of each aggregate with Pathway: a reduction over the rows of a Parquet file.

It keeps the states in memory and throws them away at the end: no target, no offsets, no recovery.
"""

import json
import sys
import time
from typing import Any

import pathway as pw
import pyarrow.parquet as pq

COLUMNS = ["aggregate_id", "sequence_number", "value"]
states: dict[Any, str] = {}


def keep(key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:
    if is_addition:
        states[key] = row["value"]
    else:
        states.pop(key, None)


began = time.perf_counter()
rows = pw.debug.table_from_pandas(pq.read_table(sys.argv[1], columns=COLUMNS).to_pandas())
newest = rows.groupby(rows.aggregate_id).reduce(
    rows.aggregate_id, at=pw.reducers.argmax(rows.sequence_number)
)
pw.io.subscribe(newest.select(newest.aggregate_id, value=rows.ix(newest.at).value), on_change=keep)
pw.run(monitoring_level=pw.MonitoringLevel.NONE)
print(json.dumps({"rows": len(states), "seconds": time.perf_counter() - began}))
