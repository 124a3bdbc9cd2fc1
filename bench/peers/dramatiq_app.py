"""Dramatiq on Valkey: a job is acknowledged after its run."""

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from bench.peers.counting import JOBS, URL, count

dramatiq.set_broker(RedisBroker(url=URL))


@dramatiq.actor
def nothing(number: int) -> None:
    count()


def enqueue() -> None:
    for number in range(JOBS):
        nothing.send(number)
