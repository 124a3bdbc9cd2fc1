"""Run a job after two others: it is blocked until both have succeeded.

If one of them were dead, it would be dead too, and its last error would name the one.
"""

import tempfile
import threading

import driftq

with tempfile.TemporaryDirectory() as folder, driftq.open(folder) as broker:
    jobs = driftq.Jobs(broker)
    published = threading.Event()

    @jobs.task(queue="video")
    def encode(part: int) -> None:
        print(f"part {part} is encoded")

    @jobs.task(queue="video")
    def publish() -> None:
        print("published")
        published.set()

    parts = [encode.enqueue(part=part) for part in (1, 2)]
    last = publish.enqueue(after=parts)
    print(f"publish is {last.state}, after {len(broker.jobs.get(last.job_id).after)} jobs")

    jobs.start()
    published.wait(timeout=20)
    jobs.stop()
