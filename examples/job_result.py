"""Wait for the result of a job, or for its error, which is raised under the class that it had.

The server wakes whoever waits when the end of the job is on disk. Nothing is polled.
"""

import logging
import tempfile

import driftq

logging.getLogger("driftq.worker").setLevel(logging.ERROR)  # Failures are logged with their tracebacks.

with tempfile.TemporaryDirectory() as folder, driftq.open(folder) as broker:
    jobs = driftq.Jobs(broker)

    @jobs.task(queue="sums", max_retries=0)
    def divide(left: int, right: int) -> float:
        return left / right

    with jobs:
        handle = divide.enqueue(10, right=4)
        print(f"{handle.id} gives {handle.result(timeout=30)}")
        try:
            divide.enqueue(1, right=0).result(timeout=30)
        except ZeroDivisionError as error:
            print(f"failed: {error}")
