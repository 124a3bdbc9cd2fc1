"""Produce messages that are delivered later: the one behind them does not wait.

`deliver_at` is an instant, `delay` counts seconds from now. The messages are stored at once and survive a
restart of the broker while they wait.
"""

import tempfile
from datetime import UTC, datetime, timedelta

import driftq

with tempfile.TemporaryDirectory() as folder:
    with driftq.open(folder) as broker:
        broker.create_topic("reminders")
        broker.produce("reminders", "second", deliver_at=datetime.now(UTC) + timedelta(seconds=1))
        broker.produce("reminders", "first", delay=0.5)
        broker.produce("reminders", "now")

    with driftq.open(folder) as broker, broker.consume("reminders", group="bell") as deliveries:
        for delivery in deliveries:
            delivery.ack()
            print(f"{delivery.value} at offset {delivery.offset}")
            if delivery.value == "second":
                break
