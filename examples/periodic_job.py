"""Let the server enqueue a job every second: each due time becomes one job, with the time in its key.

A worker declares the schedule beside its task and registers it when it starts. The server fires it from then
on, also while no worker runs.
"""

import tempfile
import threading

import driftq

with tempfile.TemporaryDirectory() as folder, driftq.open(folder) as broker:
    jobs = driftq.Jobs(broker)
    ticked = threading.Semaphore(0)

    @jobs.periodic("* * * * * *", missed="all")
    @jobs.task(queue="clock", max_retries=3)
    def tick() -> None:
        ticked.release()

    jobs.start()
    for _ in range(2):
        ticked.acquire(timeout=20)
    broker.schedules.pause("tick")
    jobs.stop()

    fired = broker.jobs.list(queue="clock")
    due_times = {job.idempotency_key for job in fired}
    print(f"each due time once: {len(fired) == len(due_times)}")
