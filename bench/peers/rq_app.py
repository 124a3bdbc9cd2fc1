"""RQ on Valkey, with the worker that runs jobs in its own process."""

from redis import Redis
from rq import Queue

from bench.peers.counting import JOBS, URL, count


def nothing(number: int) -> None:
    count()


def enqueue() -> None:
    queue = Queue("bench", connection=Redis.from_url(URL))
    for number in range(JOBS):
        queue.enqueue(nothing, number, result_ttl=0)
