"""A publisher in a driver process of its own, which kills itself and all its kin at a named point.

Run as `python -m tests.spark.publisher_driver`, with what to do as JSON on stdin.
"""

from __future__ import annotations

import dataclasses
import enum
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from driftq.model.options.pipeline import PipelineOptions
from tests.spark.publishing import TOO_BUSY

if TYPE_CHECKING:
    import pyarrow as arrow

WITHIN_S = 240
_APPENDS = 4


class KillPoint(enum.StrEnum):
    """Where the process group gets SIGKILL."""

    BEFORE_APPEND = "before_append"
    MID_BATCH = "mid_batch"
    BEFORE_CHECKPOINT = "before_checkpoint"
    NOWHERE = "nowhere"


class _Orders(msgspec.Struct):
    options: PipelineOptions
    point: KillPoint


def kill_at(options: PipelineOptions, point: KillPoint) -> None:
    """Run a publisher until it is killed there; fails when it comes to an end in any other way."""
    _run_until(-signal.SIGKILL, _Orders(options, point))


def run_to_the_end(options: PipelineOptions) -> None:
    """Let a publisher do all there is to do."""
    _run_until(0, _Orders(options, KillPoint.NOWHERE))


def _run_until(wanted: int, orders: _Orders) -> None:
    code, said = wanted, ""
    for _ in range(3):
        code, said = _run(orders)
        if code == wanted:
            return
        if TOO_BUSY not in said:
            break
    raise AssertionError(f"it ended with {code}: {said[-2_000:]}")


def _run(orders: _Orders) -> tuple[int, str]:
    driver = subprocess.Popen(
        [sys.executable, "-m", "tests.spark.publisher_driver"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        _, said = driver.communicate(msgspec.json.encode(orders), timeout=WITHIN_S)
    except subprocess.TimeoutExpired:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.communicate()
        raise
    return driver.returncode, said.decode(errors="replace")


def _die(group: int) -> NoReturn:
    os.killpg(group, signal.SIGKILL)
    signal.pause()  # A worker of Spark's is in a group of its own: it ends when its JVM is gone.
    raise AssertionError("still alive")


def main() -> None:
    from driftq.eventstore.stored import StoredEvent
    from driftq.pipeline import open_session
    from driftq.pipeline.publisher.job import Publisher
    from driftq.pipeline.publisher.lane_task import LaneTask
    from driftq.pipeline.publisher.run import SparkPublisherRun
    from driftq.publishing.checkpoint import Checkpoint, CheckpointStore
    from driftq.publishing.lanes import LaneSender, PublishReport

    orders = msgspec.json.decode(sys.stdin.buffer.read(), type=_Orders)
    group = os.getpgrp()

    def die_after_appends() -> None:
        """This process dies after a few."""
        done = 0
        flush = LaneSender._flush

        def count(sender: LaneSender, place: tuple[str, int]) -> None:
            nonlocal done
            flush(sender, place)
            done += 1
            if done == _APPENDS:
                _die(group)

        LaneSender._flush = count  # type: ignore[method-assign, assignment]

    class DyingTask(LaneTask):
        """Dies after a few appends."""

        def __call__(self, batches: Iterator[arrow.RecordBatch]) -> Iterator[arrow.RecordBatch]:
            die_after_appends()
            return super().__call__(batches)

    make_task, publish_few = SparkPublisherRun.task, SparkPublisherRun._publish_few
    save = CheckpointStore.save

    def task(run: SparkPublisherRun) -> LaneTask:
        made = make_task(run)
        if orders.point is KillPoint.BEFORE_APPEND:
            _die(group)
        if orders.point is KillPoint.MID_BATCH:
            fields: dict[str, Any] = {one.name: getattr(made, one.name) for one in dataclasses.fields(made)}
            return DyingTask(**fields)
        return made

    def few(run: SparkPublisherRun, events: Sequence[StoredEvent]) -> PublishReport:
        if orders.point is KillPoint.BEFORE_APPEND:
            _die(group)
        if orders.point is KillPoint.MID_BATCH:
            die_after_appends()
        return publish_few(run, events)

    def save_or_die(store: CheckpointStore, checkpoint: Checkpoint) -> None:
        if checkpoint.position and orders.point is KillPoint.BEFORE_CHECKPOINT:
            _die(group)
        save(store, checkpoint)

    SparkPublisherRun.task = task  # type: ignore[method-assign, assignment]
    SparkPublisherRun._publish_few = few  # type: ignore[method-assign, assignment]
    CheckpointStore.save = save_or_die  # type: ignore[method-assign, assignment]
    spark = open_session(orders.options, master="local[2]")
    query = Publisher(orders.options).start(spark, once=True)
    query.awaitTermination()


if __name__ == "__main__":
    main()
