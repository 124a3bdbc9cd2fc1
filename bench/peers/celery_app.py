"""Celery on Valkey, with late acknowledgement: a job that was under way comes back."""

from celery import Celery

from bench.peers.counting import JOBS, URL, count

app = Celery("bench", broker=URL)
app.conf.update(task_acks_late=True, task_ignore_result=True, broker_connection_retry_on_startup=True)


@app.task(name="nothing")
def nothing(number: int) -> None:
    count()


def enqueue() -> None:
    for number in range(JOBS):
        nothing.delay(number)
