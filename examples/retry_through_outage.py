"""Give a task a retry policy that outlasts an outage, and give up at once on errors that no retry mends.

The default policy already retries for hours. This one retries quickly, so that the example is short.
"""

import logging
import tempfile

import driftq

logging.getLogger("driftq.worker").setLevel(logging.ERROR)  # Failures are logged with their tracebacks.

POLICY = driftq.RetryPolicy(max_attempts=20, base=0.05, cap=0.2, give_up_on=(ValueError,))

with tempfile.TemporaryDirectory() as folder, driftq.open(folder) as broker:
    jobs = driftq.Jobs(broker)

    @jobs.task(queue="payments", retry=POLICY)
    def charge(order: str, amount: int, context: driftq.JobContext) -> str:
        if amount < 0:
            raise ValueError("a negative amount")
        if context.attempt < 4:
            raise ConnectionError("the bank is away")
        return f"charged {order} at attempt {context.attempt}"

    with jobs:
        print(charge.enqueue("tea", amount=5).result(timeout=30))
        try:
            charge.enqueue("milk", amount=-1).result(timeout=30)
        except ValueError as error:
            print(f"given up: {error}")
