"""Enqueue a job twice under one key: the queue holds one job, and it runs once.

Two web requests, or one that the browser repeats, often ask for the same work. The key says that it is the
same, and the second caller gets the id of the first job.
"""

import tempfile
import threading

import driftq

with tempfile.TemporaryDirectory() as folder, driftq.open(folder) as broker:
    jobs = driftq.Jobs(broker)
    sent = threading.Event()

    @jobs.task(queue="mail", max_retries=3)
    def welcome(to: str) -> str:
        print(f"sending a welcome to {to}")
        sent.set()
        return "sent"

    first = welcome.enqueue(to="ada@example.org", idempotency_key="welcome:ada")
    second = welcome.enqueue(to="ada@example.org", idempotency_key="welcome:ada")
    print(f"same job: {second.job_id == first.job_id}, duplicate: {second.duplicate}")

    jobs.start()
    sent.wait(timeout=10)
    jobs.stop()

    [job] = broker.jobs.list(queue="mail")
    print(f"1 job in the queue, state {job.state}, result {job.result!r}")
