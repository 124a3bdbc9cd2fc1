"""A publisher to Kafka in a driver process of its own, for tests that kill it.

Run as `python -m tests.services.kafka_driver`, with the options as JSON on stdin.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import IO

import msgspec

from driftq.model.options.pipeline import PipelineOptions
from tests.spark.publishing import TOO_BUSY
from tests.support.waiting import wait_until

WITHIN_S = 600.0


def run_until(options: PipelineOptions, reached: Callable[[], bool], log: IO[bytes]) -> None:
    """Start a publisher, and kill its process group as soon as `reached`; or wait for its end before that."""
    driver = _start(options, log)
    try:
        wait_until("it is time", lambda: driver.poll() is not None or reached(), within_s=WITHIN_S)
    finally:
        if driver.poll() is None:
            os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()


def run_to_the_end(options: PipelineOptions, log: IO[bytes]) -> None:
    """Let a publisher do all there is to do."""
    for _ in range(3):
        driver = _start(options, log)
        if driver.wait(timeout=WITHIN_S) == 0:
            return
        log.flush()
        with open(log.name, encoding="utf-8", errors="replace") as said:
            told = said.read()
        assert TOO_BUSY in told, told[-3_000:]
    raise AssertionError("the machine is too busy for Spark")


def _start(options: PipelineOptions, log: IO[bytes]) -> subprocess.Popen[bytes]:
    driver = subprocess.Popen(
        [sys.executable, "-m", "tests.services.kafka_driver"],
        stdin=subprocess.PIPE,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
    assert driver.stdin is not None
    driver.stdin.write(msgspec.json.encode(options))
    driver.stdin.close()
    return driver


def main() -> None:
    from driftq.pipeline import open_session
    from driftq.pipeline.publisher.job import Publisher

    options = msgspec.json.decode(sys.stdin.buffer.read(), type=PipelineOptions)
    spark = open_session(options, master="local[2]", reads_kafka=False)
    Publisher(options).start(spark, once=True).awaitTermination()


if __name__ == "__main__":
    main()
