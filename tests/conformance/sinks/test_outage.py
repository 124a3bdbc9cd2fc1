"""A target that is away is told as such, and nothing of a batch is left behind."""

import os
from pathlib import Path

import pytest

from driftq.errors import DatabaseUnavailable, ReadModelUnavailable
from driftq.sinks import Change, ParquetSink, PostgresSink
from tests.conformance.sinks.cast import batch, change, seen
from tests.services_postgres import PostgresServer


@pytest.mark.clause("V3", "V3c")
def test_postgres_goes_away_and_comes_back(private_postgres: PostgresServer) -> None:
    model = PostgresSink(private_postgres.url).connect("orders")
    writer_epoch = model.take_over()
    model.apply(batch(change(1), upto=1), writer_epoch)
    private_postgres.stop()
    for _ in range(2):  # On a connection that breaks, and where none can be made.
        with pytest.raises(DatabaseUnavailable):
            model.apply(batch(change(2), upto=2), writer_epoch)
    private_postgres.start()
    model.apply(batch(change(2), upto=2), writer_epoch)
    assert seen(model) == {("order", "o-1"): (2, {"at": 2})}
    model.close()


@pytest.mark.clause("V3")
def test_a_row_that_the_database_refuses_takes_its_batch_with_it(postgres_database_url: str) -> None:
    model = PostgresSink(postgres_database_url).connect("refusing")
    writer_epoch = model.take_over()
    with pytest.raises(Exception, match="json"):
        model.apply(batch(change(1), Change("order", "o-2", 1, "e", "{no json"), upto=2), writer_epoch)
    assert seen(model) == {}
    assert model.positions() == {}
    model.close()


@pytest.mark.clause("V3")
def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "in_the_way").write_text("a file where a folder should be")
    with pytest.raises(ReadModelUnavailable, match="in_the_way"):
        ParquetSink(os.fspath(tmp_path / "in_the_way")).connect("orders").take_over()
