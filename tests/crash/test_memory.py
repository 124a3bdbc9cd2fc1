"""Memory follows the number of messages, not their size."""

import json
from pathlib import Path

import psutil
import pytest

from tests.harness import ServerProcess

MESSAGES = 20_000
SIZE = 8 * 1024
BATCH = 500
PAYLOAD_BYTES = MESSAGES * SIZE
WARMING = 10  # Batches until buffers and allocator have the size that they keep.


def memory_of(server: ServerProcess) -> int:
    rss: int = psutil.Process(server.process.pid).memory_info().rss
    return rss


@pytest.mark.clause("W8")
def test_payloads_stay_on_disk(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", "--fsync", "off") as server:
        client = server.client()
        client.post("/v1/topics", {"name": "orders"})
        batch = {"messages": [{"topic": "orders", "value": "x" * SIZE}] * BATCH}
        for _ in range(WARMING):
            assert client.post("/v1/produce/batch", batch).body["failed"] == 0
        before = memory_of(server)
        for _ in range(MESSAGES // BATCH - WARMING):
            assert client.post("/v1/produce/batch", batch).body["failed"] == 0
        assert memory_of(server) - before < PAYLOAD_BYTES // 10
        server.restart()
        (partition,) = server.client().get("/v1/topics/orders").body["partitions"]
        assert partition["messages"] == MESSAGES
        assert memory_of(server) - before < PAYLOAD_BYTES // 10
        deliveries = server.stream("orders", "check", "me", lease_ms=60_000)
        assert all(delivery["value"] == "x" * SIZE for delivery in deliveries.take(50))
        assert len(json.dumps(batch)) > PAYLOAD_BYTES // (MESSAGES // BATCH)
