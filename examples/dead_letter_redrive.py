"""Look at dead letters, fix the cause, and redrive them to the group that gave them up.

A dead letter keeps its message, the group, the reason and the last error. A redrive stores the message
again for that group alone, so the groups that succeeded do not handle it a second time.
"""

import tempfile

import driftq

with tempfile.TemporaryDirectory() as folder, driftq.open(folder) as broker:
    broker.create_topic("orders")
    broker.produce("orders", {"id": 7, "card": "expired"}, key="order:7")

    with broker.consume("orders", group="billing") as deliveries:
        next(deliveries).nack("card declined", retryable=False)
    with broker.consume("orders", group="shipping") as deliveries:
        next(deliveries).ack()

    for letter in broker.dead_letters.messages("orders"):
        assert letter.envelope is not None
        assert letter.envelope.dlq is not None
        print(f"{letter.key} was given up by {letter.envelope.dlq.group}: {letter.envelope.dlq.last_error}")

    redriven = broker.dead_letters.redrive("orders", group="billing", by="ada")
    print(f"{redriven.redriven} of {redriven.matched} dead letters redriven")

    with broker.consume("orders", group="billing") as deliveries:
        delivery = next(deliveries)
        print(f"billing gets {delivery.key} again, attempt {delivery.attempt}")
        delivery.ack()
    with broker.consume("orders", group="shipping") as deliveries:
        print(f"shipping gets {len(deliveries.take(1, within_s=0.3))} messages")
