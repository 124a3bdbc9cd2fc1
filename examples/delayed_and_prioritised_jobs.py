"""Enqueue jobs with a priority and with a delay, and see in which order workers get them.

A claim takes the highest priority first. A job with a delay is not claimed before its time, whatever its
priority is, and holds up no other job while it waits.
"""

import tempfile

import driftq

with tempfile.TemporaryDirectory() as folder, driftq.open(folder) as broker:
    broker.jobs.enqueue("mail", "newsletter", {"to": "all"}, priority=1)
    broker.jobs.enqueue("mail", "password_reset", {"to": "ada"}, priority=9)
    broker.jobs.enqueue("mail", "reminder", {"to": "bob"}, priority=9, delay_s=0.5)

    for job in broker.jobs.claim(["mail"], owner="worker-1", limit=10):
        print(f"now: {job.task} with priority {job.priority}")
        broker.jobs.complete(job)

    [waiting] = broker.jobs.list(queue="mail", state="scheduled")
    print(f"not yet: {waiting.task}")

    [job] = broker.jobs.claim(["mail"], owner="worker-1", wait_ms=5_000)
    print(f"later: {job.task} with priority {job.priority}")
    broker.jobs.complete(job)
