"""What the publisher's driver sends itself, without a job of Spark, and what it leaves to tasks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from driftq.model.options.pipeline import PipelineOptions
from driftq.pipeline.publisher.kafka.run import SparkKafkaRun
from driftq.pipeline.publisher.run import FEW_EVENTS, SparkPublisherRun
from driftq.publishing.begin import begin_run
from tests.harness import ServerProcess
from tests.spark.publishing import (
    append_events,
    arrived,
    assert_once_and_in_order,
    newest_checkpoint,
    options_for,
)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "data") as started:
        yield started


class Rows:
    """A micro-batch of which nothing may be read."""


class Watched(SparkPublisherRun):
    """Notes the batches that are left to tasks."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.left_to_tasks = 0

    def publish(self, rows: Any) -> None:
        self.left_to_tasks += 1


def begin(options: PipelineOptions) -> Watched:
    run = begin_run(options, remembered=(), to_driftq=Watched, to_kafka=SparkKafkaRun)
    assert isinstance(run, Watched)
    return run


def handle(run: Watched, batch_id: int) -> None:
    rows: Any = Rows()
    run(rows, batch_id)


@pytest.mark.clause("U1", "U2", "U4")
def test_a_small_batch_is_sent_with_all_that_follows_it_in_the_log(server: ServerProcess) -> None:
    """The batches that Spark has planned meanwhile find nothing to do, and send nothing twice."""
    run = begin(options_for(server))
    append_events(server, FEW_EVENTS)
    handle(run, 0)
    assert_once_and_in_order(arrived(server), FEW_EVENTS)
    assert newest_checkpoint(server).position == FEW_EVENTS
    handle(run, 1)
    append_events(server, 3, first=FEW_EVENTS + 1)
    handle(run, 2)
    handle(run, 3)
    assert_once_and_in_order(arrived(server), FEW_EVENTS + 3)
    assert newest_checkpoint(server).position == FEW_EVENTS + 3
    assert run.left_to_tasks == 0
    run.close()


@pytest.mark.clause("U1")
def test_a_large_batch_is_left_to_tasks(server: ServerProcess) -> None:
    run = begin(options_for(server))
    append_events(server, FEW_EVENTS + 1)
    handle(run, 0)
    assert run.left_to_tasks == 1
    assert arrived(server) == []
    run.close()


@pytest.mark.clause("U3", "U6")
def test_what_the_run_before_sent_after_its_checkpoint_is_looked_at_again(server: ServerProcess) -> None:
    options = options_for(server)
    first = begin(options)
    append_events(server, 40)
    handle(first, 0)
    first.close()
    append_events(server, 5, first=41)
    second = begin(options)
    assert second.after < 40, "the lookback"
    handle(second, 0)
    assert_once_and_in_order(arrived(server), 45)
    assert (second.appended, second.skipped) == (5, 0)
    second.close()
