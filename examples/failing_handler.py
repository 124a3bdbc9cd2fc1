"""A handler that fails gives its message back; the next attempt knows why."""

import os

import driftq

with driftq.Client(os.environ.get("DRIFTQ_URL", "http://127.0.0.1:8080")) as client:
    client.create_topic("mail")
    client.produce("mail", "hello")

    with client.consume("mail", group="senders") as deliveries:
        for delivery in deliveries:
            if delivery.attempt == 1:
                delivery.nack("the mail server is asleep")
                continue
            print(f"attempt {delivery.attempt}, the last one failed: {delivery.last_error}")
            delivery.ack()
            break
