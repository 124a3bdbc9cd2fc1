"""Huey on Valkey: a job leaves its queue before its run."""

from huey import RedisHuey

from bench.peers.counting import JOBS, URL, count

huey = RedisHuey("bench", url=URL, results=False)


@huey.task()
def nothing(number: int) -> None:
    count()


def enqueue() -> None:
    for number in range(JOBS):
        nothing(number)
