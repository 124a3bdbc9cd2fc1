"""Workers whose topic is deleted and made again, or whose group is reset, while they are at work."""

import asyncio
import threading

import pytest

import driftq
from driftq.testing.embedded import VirtualBroker
from tests.unit.worker.conftest import PATIENCE_S, Mailbox


@pytest.mark.clause("T4", "I6", "I8")
def test_what_a_worker_does_for_a_deleted_topic_is_not_done_for_the_new_one(
    broker: VirtualBroker, mailbox: Mailbox
) -> None:
    running, go_on = threading.Event(), threading.Event()
    ran: list[str] = []
    worker = driftq.Worker(broker, group="billing", on_settled=mailbox.put)

    @worker.on("orders", effect=driftq.Effect.IDEMPOTENT, concurrency=1, prefetch=2)
    async def charge(message: driftq.Message, context: driftq.Context) -> str:
        running.set()
        await asyncio.to_thread(go_on.wait, PATIENCE_S)
        ran.append(message.value)
        return message.value

    with worker:
        for key in ("a", "b"):
            broker.produce("orders", f"old {key}", idempotency_key=key)
        assert running.wait(PATIENCE_S)
        broker.call("DELETE", "/v1/topics/orders")
        broker.create_topic("orders")
        go_on.set()
        broker.produce("orders", "new b", idempotency_key="b")
        while (settled := mailbox.next()).result != "new b":
            assert not settled.duplicate, f"{settled} after {ran}"
    assert ran[-1] == "new b"


@pytest.mark.clause("A7", "K6")
def test_a_message_that_nobody_had_since_the_reset_is_not_taken_for_one_that_was_cut_off(
    broker: VirtualBroker, mailbox: Mailbox
) -> None:
    worker = driftq.Worker(broker, group="billing", on_settled=mailbox.put)

    @worker.on("orders", effect=driftq.Effect.UNKNOWN)
    def charge(message: driftq.Message, context: driftq.Context) -> str:
        return f"{message.value} {context.attempt}"

    with worker:
        broker.produce("orders", "old", retries=0)
        assert mailbox.next().result == "old 1"
        broker.call("POST", "/v1/topics/orders/groups/billing/reset", body={"to": "latest"})
        broker.produce("orders", "new", retries=0)
        assert mailbox.next().result == "new 2"
    assert "dlq.orders" not in broker.topics()
