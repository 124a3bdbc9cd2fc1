"""Looking after topics, groups and files from the command line."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.harness import ServerProcess
from tests.unit.cli.conftest import Run


@pytest.mark.clause("T7", "G6")
def test_topics_and_groups_are_deleted_and_reset(
    run_client: Run, topic: str, real_server: ServerProcess
) -> None:
    assert run_client("produce", topic, "hello").exit_code == 0
    real_server.stream(topic, "billing", "w").take(1)
    said = run_client("group", "reset", topic, "billing", "--to", "latest")
    assert (said.exit_code, said.output) == (0, f"group billing of topic {topic} continues from latest\n")
    assert sum(one["lag"] for one in view(real_server, topic)["groups"]) == 0
    assert run_client("group", "reset", topic, "billing", "--to", "0").exit_code == 0
    assert sum(one["lag"] for one in view(real_server, topic)["groups"]) == 1
    assert run_client("group", "delete", topic, "billing").exit_code == 0
    assert run_client("group", "delete", topic, "billing").exit_code == 1
    assert run_client("topic", "delete", topic, "--yes").exit_code == 0
    assert real_server.client().get(f"/v1/topics/{topic}").status == 404


@pytest.mark.clause("W4", "W6")
def test_a_running_server_is_examined_and_backed_up(
    run_client: Run, topic: str, real_server: ServerProcess, tmp_path: Path
) -> None:
    assert run_client("produce", topic, "kept").exit_code == 0
    said = run_client("doctor", str(real_server.data))
    assert said.exit_code == 0
    assert "is sound" in said.output
    assert "the pipeline can" in said.output, "whether Spark could run is told too"
    told = run_client("doctor", "--json", str(real_server.data))
    assert set(json.loads(told.stdout)["pipeline"]) == {"spark", "java", "problem"}
    assert run_client("doctor", "--repair", str(real_server.data)).exit_code == 1
    copy = str(tmp_path / "copy")
    assert "verified" in run_client("backup", str(real_server.data), copy).output
    assert run_client("restore", copy, str(tmp_path / "again")).exit_code == 0
    with ServerProcess(tmp_path / "again") as again:
        assert view(again, topic)["partitions"][0]["messages"] == 1
    assert run_client("restore", copy, str(tmp_path / "again")).exit_code == 1


@pytest.mark.clause("W4")
def test_damage_is_shown_then_cut(run: Run, tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        client = server.client()
        client.post("/v1/topics", {"name": "t"})
        for number in range(20):
            client.post("/v1/produce", {"topic": "t", "value": f"message {number}"})
        server.kill()
        (log,) = server.log_folder.glob("*.log")
        octets = bytearray(log.read_bytes())
        octets[octets.index(b"message 10") + 2] ^= 1
        log.write_bytes(octets)
        shown = run("doctor", str(server.data))
        assert shown.exit_code == 1
        assert "does not match its checksum" in shown.output
        assert "whole frames with 9 messages" in shown.output
        assert log.read_bytes() == octets
        mended = run("doctor", "--repair", str(server.data))
        assert mended.exit_code == 0
        (copies,) = server.log_folder.glob("doctor-*")
        assert (copies / log.name).read_bytes() == octets
        server.start()
        assert view(server, "t")["partitions"][0]["messages"] == 10


def view(server: ServerProcess, topic: str) -> Any:
    return server.client().get(f"/v1/topics/{topic}").body
