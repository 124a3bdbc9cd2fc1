"""Damaged log files: a torn end is cut with a warning, a damaged middle stops the server."""

import random
from pathlib import Path

import pytest
from crc32c import crc32c

from tests.harness import ServerProcess

MESSAGES = 20


@pytest.fixture
def written(server: ServerProcess) -> Path:
    """The log file of a killed server, one commit for each of its messages."""
    client = server.client()
    for number in range(MESSAGES):
        assert client.post("/v1/produce", {"topic": "orders", "value": f"message {number}"}).status == 200
    server.kill()
    return sorted(server.log_folder.glob("*.log"))[-1]


def used_bytes(file: Path) -> int:
    """Without the zeros that were reserved behind the last record."""
    return len(file.read_bytes().rstrip(b"\0"))


def stored_values(server: ServerProcess) -> list[str]:
    return [delivery["value"] for delivery in server.stream("orders", "check", "me").take(count(server))]


def count(server: ServerProcess) -> int:
    messages: int = server.client().get("/v1/topics/orders").body["partitions"][0]["messages"]
    return messages


@pytest.mark.clause("W4")
def test_a_record_cut_short_is_dropped_with_a_warning(server: ServerProcess, written: Path) -> None:
    with written.open("r+b") as file:
        file.truncate(used_bytes(written) - 3)
    server.start()
    assert "WARNING" in server.errors
    assert "torn" in server.errors
    assert str(written) in server.errors
    assert stored_values(server) == [f"message {number}" for number in range(MESSAGES - 1)]
    assert server.client().post("/v1/produce", {"topic": "orders", "value": "after"}).status == 200
    server.restart()
    assert "torn" not in server.errors
    assert count(server) == MESSAGES


@pytest.mark.clause("W4")
def test_garbage_behind_the_last_record_is_dropped_with_a_warning(
    server: ServerProcess, written: Path
) -> None:
    garbage = random.Random(7).randbytes(97)
    end = used_bytes(written) + 8  # A record may end in zeros that belong to it.
    with written.open("r+b") as file:
        file.seek(end)
        file.write(garbage)
    server.start()
    assert "torn" in server.errors
    assert stored_values(server) == [f"message {number}" for number in range(MESSAGES)]


@pytest.mark.clause("W4")
def test_zeros_behind_the_last_record_are_nothing(server: ServerProcess, written: Path) -> None:
    with written.open("ab") as file:
        file.write(bytes(4096))
    server.start()
    assert "torn" not in server.errors
    assert count(server) == MESSAGES


@pytest.mark.clause("W4")
def test_a_flipped_byte_in_the_middle_stops_the_server_and_changes_nothing(
    server: ServerProcess, written: Path
) -> None:
    middle = used_bytes(written) // 2
    with written.open("r+b") as file:
        file.seek(middle)
        flipped = file.read(1)[0] ^ 0x40
        file.seek(middle)
        file.write(bytes([flipped]))
    before = written.read_bytes()
    server.spawn()
    assert server.wait_exit() != 0
    assert f"{written} is damaged at byte " in server.errors
    assert f"driftq doctor --repair {server.log_folder}" in server.errors
    assert "Traceback" not in server.errors
    position = int(server.errors.split("at byte ")[1].split(":")[0])
    assert position <= middle < position + 1000
    assert written.read_bytes() == before


@pytest.mark.clause("W4")
def test_a_log_of_a_later_format_is_not_touched(server: ServerProcess, written: Path) -> None:
    header = bytearray(written.read_bytes()[:60])
    header[8:12] = (99).to_bytes(4, "little")
    with written.open("r+b") as file:
        file.write(header + crc32c(header).to_bytes(4, "little"))
    server.spawn()
    assert server.wait_exit() != 0
    assert "has format version 99" in server.errors
    assert "Traceback" not in server.errors
