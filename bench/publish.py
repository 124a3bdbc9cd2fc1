"""Two million messages appended by position to a topic that nobody reads: no refusal, memory flat."""

import time

from bench.harness.figure import Figure, at_most, exactly
from bench.machine import server
from driftq.model.wire.append import AppendReceipt, PositionedMessage
from driftq.transport.paths import topic_path
from driftq.transport.server import Server

MESSAGES = 2_000_000
CHUNK = 1_000
LANES = 2
VALUE = "x" * 200
_INDEX_BYTES = 24
"""What the index of a stored message takes, which is the least that memory can grow by."""


def publish() -> list[Figure]:
    """Appends in chunks, one after the other; any refusal ends the run."""
    with server() as running:
        calls = Server(f"http://127.0.0.1:{running.port}", patience_s=0)
        calls.post("/v1/topics", {"name": "load", "partitions": 4}, object)
        began = time.perf_counter()
        _append(calls, upto=MESSAGES // 2, first=0)
        half = running.memory_bytes()
        _append(calls, upto=MESSAGES, first=MESSAGES // 2)
        took = time.perf_counter() - began
        grown = running.memory_bytes() - half
        calls.close()
    each = grown / (MESSAGES / 2)
    return [
        Figure(f"append by position, chunks of {CHUNK:,}", MESSAGES / took, "messages/s"),
        Figure("refusals on a topic without readers", 0, "", exactly(0)),
        Figure("memory of a message of the second million", each, "B", at_most(2 * _INDEX_BYTES)),
    ]


def _append(calls: Server, *, first: int, upto: int) -> None:
    for start in range(first, upto, CHUNK):
        messages = [
            PositionedMessage(place, VALUE, key=f"user:{place % 1_000}")
            for place in range(start, min(start + CHUNK, upto))
        ]
        body = {"writer": "bench", "lane": start // CHUNK % LANES, "epoch": 0, "messages": messages}
        receipt = calls.post(topic_path("load", "/append"), body, AppendReceipt)
        assert receipt.appended == len(messages)
