"""Other programs read the same rows from the path of the table, before and after a rebuild."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import polars
import pytest
from deltalake import DeltaTable

from driftq.sinks.delta.model import DeltaReadModel
from driftq.testing.sinks.cast import batch, change

_SQL = (
    "SELECT aggregate_type, aggregate_id, sequence_number, event_id, state FROM rows WHERE state IS NOT NULL"
)
COLUMNS = ["aggregate_type", "aggregate_id", "sequence_number", "event_id", "state"]


def by_duckdb(path: str) -> set[tuple[Any, ...]]:
    rows = DeltaTable(path).to_pyarrow_dataset()
    with duckdb.connect() as connection:
        connection.register("rows", rows)
        return set(connection.execute(_SQL).fetchall())


def by_pandas(path: str) -> set[tuple[Any, ...]]:
    rows = DeltaTable(path).to_pandas()
    return set(rows[rows["state"].notna()][COLUMNS].itertuples(index=False, name=None))


def by_polars(path: str) -> set[tuple[Any, ...]]:
    rows = polars.scan_delta(path).filter(polars.col("state").is_not_null()).select(COLUMNS)
    return set(rows.collect().iter_rows())


@pytest.mark.clause("V8", "V2")
def test_duckdb_pandas_and_polars_read_what_the_read_model_has(model: DeltaReadModel) -> None:
    epoch = model.take_over()
    changes = [change(1, of=name) for name in ("o-1", "é/😀 '\"", "o-3")]
    model.apply(batch(*changes, upto=1), epoch)
    model.apply(batch(change(2), change(2, of="o-3", deleted=True), upto=2), epoch)
    expected = {tuple(change(2)), tuple(changes[1])}
    for read in (by_duckdb, by_pandas, by_polars):
        assert read(model.address) == expected
    # A dataset cannot compare texts that MERGE has written; the table's own scan can.
    rows = DeltaTable(model.address).scan(predicate="aggregate_id = 'o-1'")
    with duckdb.connect() as connection:
        connection.register("rows", rows)
        assert connection.execute(_SQL).fetchall() == [tuple(change(2))]
    one = polars.scan_delta(model.address).filter(polars.col("aggregate_id") == "o-1")
    assert one.collect()["sequence_number"].to_list() == [2]


@pytest.mark.clause("V8", "V4")
def test_a_reader_sees_the_old_rows_or_the_rebuilt_ones_at_the_same_path(model: DeltaReadModel) -> None:
    model.apply(batch(change(1), change(1, of="gone"), upto=1), model.take_over())
    opened = DeltaTable(model.address)
    fresh = model.beside()
    building = fresh.take_over()
    for sequence in (5, 6):
        fresh.apply(batch(change(sequence), upto=sequence), building)
    old = {tuple(change(1)), tuple(change(1, of="gone"))}
    assert by_duckdb(model.address) == by_polars(model.address) == old
    model.swap(building)
    for read in (by_duckdb, by_pandas, by_polars):
        assert read(model.address) == {tuple(change(6))}
    # One commit: whoever has opened the version before goes on with it.
    assert DeltaTable(model.address, version=opened.version() + 2).to_pyarrow_table().num_rows == 1
    assert {row["aggregate_id"] for row in opened.to_pyarrow_table().to_pylist()} == {"o-1", "gone"}
    model.apply(batch(change(7), change(1, of="o-2"), upto=7), model.take_over())
    assert by_polars(model.address) == {tuple(change(7)), tuple(change(1, of="o-2"))}
    files = [Path(file) for file in DeltaTable(model.address).file_uris()]
    assert all(file.exists() for file in files)
