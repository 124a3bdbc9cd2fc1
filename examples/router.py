"""Send messages to another topic by their content, with a router.

The broker asks the router before it stores a message, and keeps the decision with the message. Producers
need not know which topic is right, and a router that fails delays or loses nothing.
"""

import tempfile

import driftq


def route(topic: str, message: driftq.Message) -> driftq.RoutingDecision | None:
    """Large orders have a topic of their own; None leaves the message where it is."""
    total = message.json()["total"]
    if total < 1_000:
        return None
    return driftq.RoutingDecision(label="large", target_topic="orders.large", meta={"total": str(total)})


with tempfile.TemporaryDirectory() as folder, driftq.open(folder, router=route) as broker:
    broker.create_topic("orders")
    broker.create_topic("orders.large")
    for total in (12, 4_200):
        receipt = broker.produce("orders", {"total": total})
        print(f"an order of {total} is stored in {receipt.topic}")

    with broker.consume("orders.large", group="managers") as deliveries:
        delivery = next(deliveries)
        assert delivery.routing is not None
        print(f"label {delivery.routing.label}, produced to {delivery.requested_topic}")
        delivery.ack()
