"""Produce a list in which one message is refused: the others are stored, and the error names the place.

An import should not stop at its first bad line. Here a price list is imported again after one of its lines
was changed, and the broker is told to refuse another payload under a used key.
"""

import os
import tempfile

import driftq

os.environ["DRIFTQ_IDEMPOTENCY_MISMATCH_MODE"] = "error"

MONDAY = [{"id": "tea", "price": 3}, {"id": "milk", "price": 2}]
TUESDAY = [{"id": "tea", "price": 3}, {"id": "milk", "price": 99}, {"id": "bread", "price": 4}]


def line_key(line: dict[str, str | int]) -> str:
    return f"price-list-7:{line['id']}"


with tempfile.TemporaryDirectory() as folder, driftq.open(folder) as broker:
    broker.create_topic("prices")
    broker.produce_many("prices", MONDAY, idempotency_key=line_key)

    try:
        broker.produce_many("prices", TUESDAY, idempotency_key=line_key)
    except driftq.BatchRefused as refused:
        for place, error in refused.errors.items():
            print(f"refused: {TUESDAY[place]}: {type(error).__name__}")
        for place in refused.receipts:
            print(f"stored, now or before: {TUESDAY[place]}")

    print(f"in the topic: {[message.json() for message in broker.records('prices')]}")
