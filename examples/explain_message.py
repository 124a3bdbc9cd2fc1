"""Ask the broker what happened to a message: every delivery, failure and ack, with its time.

"Why did this order arrive late?" is answered by the broker's own record. There is no need to search the
logs of all consumers.
"""

import tempfile

import driftq

with tempfile.TemporaryDirectory() as folder, driftq.open(folder) as broker:
    broker.create_topic("orders")
    receipt = broker.produce("orders", {"id": 7}, key="order:7")

    with broker.consume("orders", group="billing", owner="worker-a") as deliveries:
        next(deliveries).nack("card service is down")
    with broker.consume("orders", group="billing", owner="worker-b") as deliveries:
        next(deliveries).ack()

    explained = broker.explain("orders", receipt.offset)
    for entry in explained.history:
        details = entry.reason or entry.owner or ""
        print(f"{entry.at}  {entry.what:10} attempt {entry.attempt or '-'}  {details}")
    for group in explained.groups:
        print(f"group {group.group} is {group.state} after {group.attempts} attempts")
