"""A message goes in, comes out and is done with."""

import os

import driftq

with driftq.Client(os.environ.get("DRIFTQ_URL", "http://127.0.0.1:8080")) as client:
    client.create_topic("coffee", partitions=3)
    receipt = client.produce("coffee", {"drink": "flat white"}, key="table:7")
    print(f"stored in partition {receipt.partition} at offset {receipt.offset}")

    with client.consume("coffee", group="bar") as deliveries:
        for delivery in deliveries:
            print(f"making {delivery.json()['drink']} (attempt {delivery.attempt})")
            delivery.ack()
            break
