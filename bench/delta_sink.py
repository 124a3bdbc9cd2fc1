"""A read model in Delta tables against delta-rs's own merge and append of the same rows, without guarantees.

The plain merge knows no epoch, no position and no sequence: it updates whatever is there. Both merge batches
of new and changed rows into a table that grows, by turns, each into its own.
"""

import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from deltalake import DeltaTable, write_deltalake

from bench.harness.figure import Figure, at_least
from driftq.sinks import Application, Change, DeltaSink, TopicPartition
from driftq.sinks.arrow_rows import CHANGES, as_table

BATCHES = 12
BATCH_ROWS = 20_000
SMALL_ROWS = 500
SHARE_MIN = 0.6
_STATE = "x" * 120
_PLACES = [TopicPartition("events.order", partition, "driftq/bench/1") for partition in range(4)]

Write = Callable[[list[Change], int], None]


def delta_sink() -> list[Figure]:
    figures = []
    for rows in (BATCH_ROWS, SMALL_ROWS):
        with tempfile.TemporaryDirectory() as folder:
            ours, merged, appended = _measure(Path(folder), rows)
        share, beside = merged / ours, appended / ours
        figures += [
            Figure(
                f"Delta: batches of {rows:,} rows, half of them new, against a plain MERGE of delta-rs",
                share,
                "×",
                at_least(SHARE_MIN),
            ),
            Figure("… the same, against a plain append, which keeps every version", beside, "×"),
            Figure("… rows per second", rows / ours, ""),
        ]
    return figures


def _measure(folder: Path, rows: int) -> tuple[float, float, float]:
    """The seconds of a batch: ours, a plain merge, a plain append."""
    model = DeltaSink(str(folder / "ours")).connect("orders")
    writer_epoch = model.take_over()

    def ours(changes: list[Change], number: int) -> None:
        reached = dict.fromkeys(_PLACES, number)
        model.apply(Application(changes=changes, positions=reached), writer_epoch)

    merging = DeltaTable.create(str(folder / "merged"), CHANGES)

    def merged(changes: list[Change], _: int) -> None:
        merger = merging.merge(
            as_table(changes, CHANGES),
            "t.aggregate_type = s.aggregate_type AND t.aggregate_id = s.aggregate_id",
            source_alias="s",
            target_alias="t",
        )
        merger.when_matched_update_all().when_not_matched_insert_all().execute()

    appending = DeltaTable.create(str(folder / "appended"), CHANGES)

    def appended(changes: list[Change], _: int) -> None:
        write_deltalake(appending, as_table(changes, CHANGES), mode="append")

    took: dict[Write, list[float]] = {ours: [], merged: [], appended: []}
    for number in range(BATCHES):
        changes = _changes(rows, number)
        for write, times in took.items():
            began = time.perf_counter()
            write(changes, number)
            times.append(time.perf_counter() - began)
    # The first ones load the library.
    times = [statistics.median(each[2:]) for each in took.values()]
    return times[0], times[1], times[2]


def _changes(rows: int, number: int) -> list[Change]:
    """Half of the aggregates are those of the batch before."""
    first = number * rows // 2
    return [
        Change("order", f"o-{which:09}", number + 1, f"e-{number}-{which}", json.dumps({"v": _STATE}))
        for which in range(first, first + rows)
    ]
