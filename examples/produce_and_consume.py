"""Produce a message, consume it, acknowledge it.

This is the loop that everything else builds on. A message stays with its group until the group acks it, so
a consumer that crashes before its ack gets the message again.
"""

import tempfile

import driftq

with tempfile.TemporaryDirectory() as folder, driftq.open(folder) as broker:
    broker.create_topic("coffee", partitions=3)
    receipt = broker.produce("coffee", {"drink": "flat white"}, key="table:7")
    print(f"stored in partition {receipt.partition} at offset {receipt.offset}")

    with broker.consume("coffee", group="bar") as deliveries:
        delivery = next(deliveries)
        print(f"making a {delivery.json()['drink']} for {delivery.key}, attempt {delivery.attempt}")
        delivery.ack()

    lag = sum(group.lag for group in broker.topic("coffee").groups)
    print(f"{lag} messages left")
