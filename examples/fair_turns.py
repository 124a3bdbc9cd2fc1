"""Give jobs a limit key: each customer runs one job at a time, and a flood of one delays no other.

The server keeps the limits, so they hold over all workers. Within a priority, keys take turns.
"""

import tempfile

import driftq

with tempfile.TemporaryDirectory() as folder, driftq.open(folder) as broker:
    jobs = driftq.Jobs(broker)

    @jobs.task(queue="invoices", limit_key=lambda order: order["customer"])
    def send_invoice(order: dict[str, str]) -> None: ...

    broker.queues.limit("invoices", key_concurrency=1)
    for customer in ["flood"] * 5 + ["ada", "bob"]:
        send_invoice.enqueue(order={"customer": customer})

    claimed = broker.jobs.claim(["invoices"], owner="worker", limit=10)
    print(f"running: {[job.payload['order']['customer'] for job in claimed]}")
    broker.jobs.complete(claimed[0])
    [following] = broker.jobs.claim(["invoices"], owner="worker", limit=10)
    print(f"then: {following.payload['order']['customer']}")
