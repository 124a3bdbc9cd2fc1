"""Requeue dead jobs in bulk: count those that a filter matches, then requeue them at a rate."""

import logging
import tempfile

import driftq

logging.getLogger("driftq.worker").setLevel(logging.CRITICAL)  # Failures are logged with their tracebacks.

with tempfile.TemporaryDirectory() as folder, driftq.open(folder) as broker:
    jobs = driftq.Jobs(broker)
    bank_is_away = True

    @jobs.task(queue="payments", max_retries=0)
    def charge(order: str) -> str:
        if order == "milk":
            raise ValueError("no such order")
        if bank_is_away:
            raise ConnectionError("the bank is away")
        return f"charged {order}"

    with jobs:
        handles = [charge.enqueue(order) for order in ("tea", "milk", "bread")]
        for handle in handles:
            try:
                handle.result(timeout=30)
            except driftq.JobFailed as failure:
                print(f"dead: {failure.error}")

        bank_is_away = False
        found = broker.jobs.requeue_dead(queue="payments", error="ConnectionError", dry_run=True)
        print(f"{found.matched} of {len(handles)} dead jobs match")
        broker.jobs.requeue_dead(queue="payments", error="ConnectionError", rate_per_s=50)
        print([handle.result(timeout=30) for handle in (handles[0], handles[2])])
