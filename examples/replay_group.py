"""Reset a group to the beginning, and it gets every message again.

Messages stay in their topic after the ack, until their retention is over. So a consumer with a fixed bug
can process the past once more, and other groups notice nothing.
"""

import tempfile

import driftq


def consumed(broker: driftq.Client) -> list[str]:
    """Everything that the group has not acked yet."""
    with broker.consume("orders", group="search") as deliveries:
        values = []
        for delivery in deliveries.take(10, within_s=0.3):
            values.append(delivery.value)
            delivery.ack()
    return values


with tempfile.TemporaryDirectory() as folder, driftq.open(folder) as broker:
    broker.create_topic("orders")
    broker.produce_many("orders", ["tea", "milk", "bread"])
    print(f"first pass: {consumed(broker)}")
    print(f"after the acks: {consumed(broker)}")
    broker.reset_group("orders", "search", to="earliest")
    print(f"after the reset: {consumed(broker)}")
    broker.reset_group("orders", "search", to=2)
    print(f"from offset 2: {consumed(broker)}")
