"""Give a message headers: its consumer gets them beside the value, and so does every other reader."""

import tempfile

import driftq

with tempfile.TemporaryDirectory() as folder, driftq.open(folder) as broker:
    broker.create_topic("orders")
    broker.produce("orders", {"id": 1}, headers={"source": "web", "schema": "order/2"})
    with broker.consume("orders", "billing") as deliveries:
        delivery = next(deliveries)
        print(f"order {delivery.json()['id']} from {delivery.headers['source']}")
        delivery.ack()
    print([record.headers for record in broker.records("orders")])
