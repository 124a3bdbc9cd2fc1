"""Whoever does not want to wait for the tables asks for them."""

from pathlib import Path

import pytest
from pyarrow import parquet
from typer.testing import CliRunner

import driftq
from driftq.cli.app import app
from tests.harness import ServerProcess


@pytest.mark.clause("Z3", "W6")
def test_what_was_produced_is_in_the_table_when_the_call_returns(tmp_path: Path) -> None:
    table = tmp_path / "data" / "tables" / "orders"
    with ServerProcess(tmp_path / "data") as server:
        url = f"http://127.0.0.1:{server.port}"
        with driftq.Client(url, timeout_s=120) as client:
            client.create_topic("orders", partitions=2, table=True)
            client.produce_many("orders", range(10), key=str)
            client.seal()
            assert _offsets(table) == list(range(10))
            client.produce_many("orders", range(5), key=str)
        ran = CliRunner().invoke(app, ["topic", "seal", "--url", url])
        assert ran.exit_code == 0, ran.output
        assert _offsets(table) == list(range(15))
        server.kill()
    assert _offsets(table) == list(range(15))


@pytest.mark.clause("W7", "Z3")
def test_without_a_wal_there_is_nothing_to_wait_for_and_no_table(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", "--no-wal") as server:
        client = server.client()
        assert client.post("/v1/topics", {"name": "orders", "table": True}).status == 201
        assert client.post("/v1/produce", {"topic": "orders", "value": "v"}).status == 200
        answer = client.post("/v1/seal", {})
        assert (answer.status, answer.body) == (200, {"status": "sealed"})
        assert client.get("/v1/topics/orders").body["partitions"][0]["messages"] == 1
        assert not server.data.exists()


def _offsets(table: Path) -> list[int]:
    found: list[int] = []
    for file in driftq.table_files(table):
        found += parquet.read_table(file, columns=["offset"]).column(0).to_pylist()
    return sorted(found)
