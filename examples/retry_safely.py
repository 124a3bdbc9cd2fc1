"""A produce can be repeated: under one idempotency key there is one message, however often it is sent."""

import os

import driftq

with driftq.Client(os.environ.get("DRIFTQ_URL", "http://127.0.0.1:8080")) as client:
    client.create_topic("payments")
    for _ in range(3):
        receipt = client.produce("payments", {"amount": 12}, idempotency_key="invoice-2041")
        print(f"offset {receipt.offset}, duplicate: {receipt.duplicate}")
