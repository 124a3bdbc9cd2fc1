"""Repeat a produce under one idempotency key: the broker stores one message.

A producer that gets no answer cannot know whether its message arrived. With a key it simply sends the
message again, and a payment is not booked twice.
"""

import tempfile

import driftq

with tempfile.TemporaryDirectory() as folder, driftq.open(folder) as broker:
    broker.create_topic("payments")
    for attempt in (1, 2, 3):
        receipt = broker.produce("payments", {"amount": 12}, idempotency_key="invoice-2041")
        print(f"attempt {attempt}: offset {receipt.offset}, duplicate: {receipt.duplicate}")

    other = broker.produce("payments", {"amount": 99}, idempotency_key="invoice-2041")
    print(f"another amount under the same key: payload mismatch: {other.payload_mismatch}")

    print(f"{len(list(broker.records('payments')))} message stored")
