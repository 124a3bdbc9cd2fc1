"""A user's program: everything public, with the types that a user expects."""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import assert_type

import driftq


@dataclass
class Order:
    id: int


def produce(client: driftq.Client) -> None:
    client.create_topic("orders", partitions=4)
    receipt = client.produce(
        "orders",
        {"id": 1},
        key="user:1",
        idempotency_key="order-1",
        run_id="run-1",
        deadline=datetime.now(UTC),
        retry_policy=driftq.RetryPolicy(max_attempts=3),
    )
    assert_type(receipt, driftq.Receipt)
    assert_type(receipt.offset, int)
    assert_type(client.produce_many("orders", ["a", "b"], key=str.upper), list[driftq.Receipt])
    assert_type(client.topics(), list[str])
    assert_type(client.topic("orders").partitions[0].messages, int)
    for message in client.records("orders", limit=10):
        assert_type(message, driftq.RecordedMessage)


def consume(client: driftq.Client) -> None:
    with client.consume("orders", "billing", lease_ms=30_000, start="earliest") as deliveries:
        for delivery in deliveries:
            assert_type(delivery, driftq.Delivery)
            assert_type(delivery.decode(Order), Order)
            assert_type(delivery.bytes(), bytes)
            assert_type(delivery.envelope.tenant_id, str | None)
            try:
                delivery.ack()
            except driftq.StaleAttempt as stale:
                assert_type(stale.held, int)
            delivery.nack("failed", retryable=False)
            delivery.extend(60_000)


async def consume_awaiting(client: driftq.AsyncClient) -> None:
    receipt = await client.produce("orders", b"\x00", tenant_id="acme")
    assert_type(receipt, driftq.Receipt)
    async with client.consume("orders", "billing") as deliveries:
        async for delivery in deliveries:
            assert_type(delivery, driftq.AsyncDelivery)
            await delivery.ack_later()
    async for message in client.records("orders"):
        assert_type(message.offset, int)


def route(topic: str, message: driftq.Message) -> driftq.RoutingDecision | None:
    return driftq.RoutingDecision(label="large") if len(message.value) > 1000 else None


def main() -> None:
    with driftq.open("./data", router=route) as broker:
        assert_type(broker, driftq.Client)
        produce(broker)
    with driftq.Client("http://127.0.0.1:8080", timeout_s=5.0) as client:
        consume(client)
    asyncio.run(consume_awaiting(driftq.AsyncClient(options=driftq.ClientOptions(batch_messages=10))))


if __name__ == "__main__":
    main()
