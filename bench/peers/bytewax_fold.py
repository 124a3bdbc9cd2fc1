"""The newest state of each aggregate with Bytewax: one keyed step over the rows of a Parquet file.

It keeps the states in memory and throws them away at the end: no target, no offsets, no recovery.
"""

import json
import sys
import time
from typing import Any

import bytewax.operators as op
import pyarrow.parquet as pq
from bytewax.dataflow import Dataflow
from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.testing import run_main

COLUMNS = ["aggregate_id", "sequence_number", "value"]
ROWS_AT_ONCE = 8_192

Row = tuple[int, str]


class Rows(StatefulSourcePartition[Any, None]):
    """A file, some rows at a time; the end of the iterator is the end of the stream."""

    def __init__(self, path: str) -> None:
        self._batches = pq.ParquetFile(path).iter_batches(ROWS_AT_ONCE, columns=COLUMNS)

    def next_batch(self) -> list[tuple[str, Row]]:
        keys, sequences, values = (column.to_pylist() for column in next(self._batches).columns)
        return list(zip(keys, zip(sequences, values, strict=True), strict=True))

    def snapshot(self) -> None:
        return None


class Files(FixedPartitionedSource[Any, None]):
    def list_parts(self) -> list[str]:
        return sys.argv[1:]

    def build_part(self, step_id: str, for_part: str, resume_state: None) -> Rows:
        return Rows(for_part)


class Count(StatelessSinkPartition[Any]):
    rows = 0

    def write_batch(self, items: list[Any]) -> None:
        Count.rows += len(items)


class Counting(DynamicSink[Any]):
    def build(self, step_id: str, worker_index: int, worker_count: int) -> Count:
        return Count()


def newest(state: Row | None, row: Row) -> Row:
    return row if state is None or row[0] > state[0] else state


flow = Dataflow("fold")
op.output("out", op.fold_final("newest", op.input("in", flow, Files()), lambda: None, newest), Counting())
began = time.perf_counter()
run_main(flow)
print(json.dumps({"rows": Count.rows, "seconds": time.perf_counter() - began}))
