"""Watch jobs: queues with their limits and pauses, schedules with their next time, and what a job waits for.

The dashboard at `/v1/ui` shows the same, and so do `driftq queue list` and `driftq schedule list`.
"""

import tempfile

import driftq

with tempfile.TemporaryDirectory() as folder, driftq.open(folder) as broker:
    broker.queues.limit("video", concurrency=2, rate=(100, 60))
    broker.queues.pause("mail")
    broker.schedules.create("nightly", "30 2 * * *", queue="mail", task="digest", timezone="Europe/Berlin")
    encode = broker.jobs.enqueue("video", "encode", {"part": 1})
    publish = broker.jobs.enqueue("video", "publish", None, after=[encode.job_id])
    broker.jobs.enqueue("mail", "send", {"to": "ada@example.org"})

    for queue in broker.queues.list():
        print(
            f"{queue.queue}: {queue.ready} ready, {queue.blocked} blocked, "
            f"paused {queue.paused}, at once {queue.limits.concurrency}"
        )
    for schedule in broker.schedules.list():
        print(f"{schedule.name}: {schedule.cron} in {schedule.timezone}, next at {schedule.next_at}")
    print(f"{publish.job_id} waits for {broker.jobs.get(publish.job_id).waits_for}")
