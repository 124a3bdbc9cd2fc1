"""`python -m bench.peers.huey_sqlite FILE SECONDS`: one job enqueued after the other, each on disk."""

import sys
import time

from huey import SqliteHuey


def main(file: str, seconds: str) -> None:
    huey = SqliteHuey("bench", filename=file, fsync=True, results=False)

    @huey.task()
    def nothing(number: int) -> None:
        pass

    for number in range(50):
        nothing(-number)
    began, spent, count = time.perf_counter(), time.process_time(), 0
    while (took := time.perf_counter() - began) < float(seconds):
        nothing(count)
        count += 1
    print(count, took, time.process_time() - spent)


if __name__ == "__main__":
    main(*sys.argv[1:])
