"""A group's progress comes out of a snapshot as it went in."""

from typing import Any

import msgspec
import pytest

from driftq.core.group import GroupPartition
from driftq.core.records import DeliveryTerms
from driftq.core.snapshot.state import dump_state, load_state
from tests.unit.core.machine import PureBroker


def everything_of(progress: GroupPartition, *, now: int) -> dict[str, Any]:
    return {
        "places": (progress.floor, progress.upto, progress.acked, bytes(progress.ahead)),
        "counts": (progress.ahead_count, progress.ahead_bytes, progress.unsettled),
        "attempts": progress.attempts,
        "uncounted": progress.uncounted,
        "errors": progress.errors,
        "waiting": progress.waiting,
        "due": progress.due(now, limit=9),
        "leases": [
            (block.owner, block.lease_ms, block.until, held) for block, held in progress.leases.blocks()
        ],
    }


@pytest.mark.clause("W3", "W2")
def test_a_snapshot_keeps_all_that_a_group_knows(broker: PureBroker) -> None:
    broker.group()
    broker.produce(*"abcdef", terms=DeliveryTerms(max_attempts=3))
    broker.deliver(("a", 6))
    broker.ack(0, 2)
    broker.nack(1, "boom")
    broker.nack(3, started=False)
    broker.now += 100
    broker.deliver(("b", 1), lease_ms=700)
    before = broker.progress()
    assert (before.attempts[1], before.errors[1], before.uncounted) == (2, "boom", {3: 1})
    parts = {name: memoryview(octets) for name, octets in dump_state(broker.state).items()}
    loaded = load_state(parts, broker.state.limits)
    loaded.topics["orders"].partitions[0].index = broker.topic.partitions[0].index
    after = loaded.topics["orders"].groups["workers"].partitions[0]
    after.index = before.index
    assert everything_of(after, now=broker.now) == everything_of(before, now=broker.now)
    assert loaded.topics["orders"].groups["workers"].seen_at == broker.topic.groups["workers"].seen_at


@pytest.mark.clause("W2", "W3")
def test_a_snapshot_from_before_tries_were_counted_apart_still_opens(broker: PureBroker) -> None:
    broker.group()
    broker.produce("a")
    broker.deliver(("a", 1))
    broker.nack(0, "boom")
    parts = dump_state(broker.state)
    topics = msgspec.msgpack.decode(parts["topics"])
    (progress,) = topics[0][5][0][3]
    progress.pop()
    parts["topics"] = msgspec.msgpack.encode(topics)
    views = {name: memoryview(octets) for name, octets in parts.items()}
    loaded = load_state(views, broker.state.limits).topics["orders"].groups["workers"].partitions[0]
    assert (loaded.errors, loaded.uncounted) == ({0: "boom"}, {})
