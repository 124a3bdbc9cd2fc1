"""`--sink`: one run writes to several targets by their addresses, one of them a sink of the user's own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.acceptance.pipeline.running import PipelineCommands
from tests.harness import ServerProcess

ROOT = Path(__file__).parents[3]
OWN = """
import sys
sys.path.insert(0, {root!r})
from examples.custom_sink import KeyValueSink

shelf = KeyValueSink({folder!r})
"""


def append(server: ServerProcess, name: str, sequence: int, operation: str, total: int) -> None:
    event = {"event_id": f"{name}-{sequence}", "aggregate_type": "order", "aggregate_id": name}
    event |= {"event_type": "order.changed", "kind": "command", "operation": operation}
    body = event | {"payload": {"total": total}, "expected_seq": sequence - 1}
    assert server.client().post("/v1/events", body).status == 201


@pytest.mark.timeout(900)
@pytest.mark.clause("V9", "Z1")
def test_a_projection_and_its_rebuild_write_to_the_sinks_that_the_command_names(tmp_path: Path) -> None:
    (tmp_path / "shelf").mkdir()
    (tmp_path / "my_shelf.py").write_text(OWN.format(root=str(ROOT), folder=str(tmp_path / "shelf")))
    targets = [f"sqlite:///{tmp_path}/models.db", f"parquet://{tmp_path}/files", "my_shelf:shelf"]
    named = [word for target in targets for word in ("--sink", target)]
    with ServerProcess(tmp_path / "data") as server:
        env = {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}
        url = f"http://127.0.0.1:{server.port}"
        pipeline = PipelineCommands(url, server.data, env, folder=tmp_path)
        append(server, "a", 1, "create", 1)
        append(server, "b", 1, "create", 2)
        append(server, "a", 2, "update", 3)
        pipeline.ran("run", "publisher", "projection", "rebuild", *named, "--once")
        wanted = [
            {"aggregate_type": "order", "aggregate_id": "a", "sequence_number": 2, "state": {"total": 3}},
            {"aggregate_type": "order", "aggregate_id": "b", "sequence_number": 1, "state": {"total": 2}},
        ]
        for target in targets:
            assert pipeline.rows("latest", "--sink", target) == wanted, target
        assert "there is no read model 'latest'" in pipeline.run("rows", "latest").stderr
